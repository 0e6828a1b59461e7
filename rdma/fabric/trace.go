package fabric

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// RecordKind is the kind of a Record.
type RecordKind uint8

const (
	// SASet and SADelete are requests that the subnet administrator received.
	SASet RecordKind = iota
	SADelete
	// GroupCreated and GroupDeleted are its traps 66 and 67.
	GroupCreated
	GroupDeleted
	// IGMPReport and IGMPLeave were sent by an Ethernet interface.
	IGMPReport
	IGMPLeave
)

func (k RecordKind) String() string {
	return [...]string{"SA Set", "SA Delete", "group created", "group deleted", "IGMP report", "IGMP leave"}[min(k, IGMPLeave)]
}

// Record is a request to the subnet administrator or an IGMP message.
type Record struct {
	At   time.Duration
	Kind RecordKind
	Host string // the sender
	Port uint8
	MGID rdma.GID
	// State is the JoinState of SASet and SADelete. Refused: the administrator refused it.
	State   rdma.JoinState
	Refused bool
}

func (r Record) String() string {
	return fmt.Sprintf("%v %v/%d %v %v state %#x refused %v", r.At, r.Host, r.Port, r.Kind, r.MGID, r.State, r.Refused)
}

// traceLimit bounds the trace; the oldest records are removed.
const traceLimit = 1 << 16

// record adds r to the trace. The caller holds mu.
func (f *Fabric) record(p *Port, r Record) {
	r.At = f.time()
	if p != nil {
		r.Host, r.Port = p.hca.host.cfg.Name, p.num
	}
	if len(f.trace) == traceLimit {
		f.trace = append(f.trace[:0], f.trace[traceLimit/2:]...)
	}
	f.trace = append(f.trace, r)
}

// Trace returns and removes the records since the last call, at least the latest 32768.
func (f *Fabric) Trace() []Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.trace
	f.trace = nil
	return t
}
