package soft

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// Backend is a device's connection to its fabric. Its methods are called with locks of this package held, so they must
// not call this package.
type Backend interface {
	// After calls f once, after d. It stands for the kernel's work queue: f never runs within After, even if d is 0.
	// cancel prevents the call if f has not begun; it does not wait for f.
	After(d time.Duration, f func()) (cancel func())
	// SA sends a request of the port to the subnet administrator and calls done with the answer, if there is one. Only for
	// InfiniBand ports.
	SA(port uint8, req SARequest, done func(SAReply))
	// JoinIP makes the port's network interface a member of an IP multicast group (IGMP, MLD), and LeaveIP ends that. They
	// are called for the first and the last membership of a port, only for Ethernet ports. The join fails with the errno
	// of the error.
	JoinIP(port uint8, group netip.Addr) error
	LeaveIP(port uint8, group netip.Addr)
	// Transmit sends datagrams of one queue pair in order and returns the number that it accepted. It must not read their
	// memory after it has returned. If it did not accept all, it must call QP.Resume when it can accept more.
	Transmit(q *QP, batch []Datagram) int
	// Progress receives datagrams. CQ.Poll calls it without a lock when the queue is empty, if queue pairs use the queue
	// for receiving, or if a queue pair of the device waits for Resume. It may call Device.Deliver. It reports whether
	// completions may have been added.
	Progress() bool
	// Drain delivers datagrams that have already reached the port, before a leave detaches the queue pair. It is called
	// with Host.cm held.
	Drain()
	// Arm is called when a completion queue was armed, or when the backend did not accept all datagrams. While
	// Device.Armed returns true, the backend must deliver datagrams and resume queue pairs without being polled.
	Arm()
	// NewQP returns the number of a queue pair before it is made (Device.NextQPN, unless the backend chooses numbers
	// itself). CloseQP is called when the queue pair is destroyed.
	NewQP() (rdma.QPN, error)
	CloseQP(rdma.QPN)
	// Attached is called for the first attachment to a group, and Detached after the last one has ended. If Attached
	// returns an error, the attachment fails.
	Attached(gid rdma.GID) error
	Detached(gid rdma.GID)
	// NewWaiter makes a waiter: see rdma.Waiting.
	NewWaiter() (rdma.Waiter, error)
}

// Passive has empty methods for Backends that store nothing for queue pairs and groups, and deliver datagrams without
// being polled.
type Passive struct{}

// Progress implements Backend.
func (Passive) Progress() bool { return false }

// Drain implements Backend.
func (Passive) Drain() {}

// Arm implements Backend.
func (Passive) Arm() {}

// CloseQP implements Backend.
func (Passive) CloseQP(rdma.QPN) {}

// Attached implements Backend.
func (Passive) Attached(rdma.GID) error { return nil }

// Detached implements Backend.
func (Passive) Detached(rdma.GID) {}

// NewWaiter implements Backend: it returns an error.
func (Passive) NewWaiter() (rdma.Waiter, error) {
	return nil, rdma.Errorf("create waiter", syscall.EOPNOTSUPP, "the device does not support it: use a completion channel")
}

// Datagram is a UD message in transit. In Transmit its payload is SG, in Deliver the payload is a separate argument.
type Datagram struct {
	Port            uint8 // of the sender
	SrcQPN, DestQPN rdma.QPN
	QKey            rdma.QKey
	PKey            rdma.PKey
	PSN             uint32 // 24 bits; it increases by 1 for each datagram of a queue pair
	SLID, DLID      rdma.LID
	SL              uint8
	HasImm          bool
	Solicited       bool
	Imm             [4]byte
	// Net has the fields of the GRH or IP header.
	Net rdma.Header
	// SG is the payload, Len its length in bytes.
	SG  []rdma.SGE
	Len int
	// GRH, if not nil, has the GRHBytes bytes for the receive buffer as received, except Arrival.ID; otherwise they are
	// made from Net.
	GRH []byte
}

// AppendPayload appends the payload of a datagram in Transmit to b.
func (d *Datagram) AppendPayload(b []byte) []byte {
	for i := range d.SG {
		b = append(b, d.SG[i].Buf...)
	}
	return b
}

// headerBytes returns the length of BTH, DETH, immediate data and ICRC.
func headerBytes(hasImm bool) int {
	n := 12 + 8 + 4
	if hasImm {
		n += 4
	}
	return n
}

// MCMember is an MCMemberRecord (IBTA 15.2.5.17).
type MCMember struct {
	MGID         rdma.GID
	PortGID      rdma.GID
	QKey         rdma.QKey
	MLID         rdma.LID
	MTUSelector  uint8 // 0 greater, 1 less, 2 exactly
	MTU          uint8 // code: 1 is 256 bytes
	TClass       uint8
	PKey         rdma.PKey
	RateSelector uint8
	Rate         uint8 // enum ibv_rate
	LifeSelector uint8
	Life         uint8
	SL           uint8
	Flow         uint32
	HopLimit     uint8
	Scope        uint8
	JoinState    rdma.JoinState
}

// MCMask is the component mask of a request, with a bit for each valid field.
type MCMask uint32

// Bits of MCMask, with their positions in the MAD (IBTA 15.2.5.17).
const (
	MCMGID         MCMask = 1 << 0
	MCPortGID      MCMask = 1 << 1
	MCQKey         MCMask = 1 << 2
	MCMLID         MCMask = 1 << 3
	MCMTUSelector  MCMask = 1 << 4
	MCMTU          MCMask = 1 << 5
	MCTClass       MCMask = 1 << 6
	MCPKey         MCMask = 1 << 7
	MCRateSelector MCMask = 1 << 8
	MCRate         MCMask = 1 << 9
	MCLifeSelector MCMask = 1 << 10
	MCLife         MCMask = 1 << 11
	MCSL           MCMask = 1 << 12
	MCFlow         MCMask = 1 << 13
	MCHopLimit     MCMask = 1 << 14
	MCScope        MCMask = 1 << 15
	MCJoinState    MCMask = 1 << 16
)

// SARequest is a Set (join) or Delete (leave) of an MCMemberRecord.
type SARequest struct {
	Delete bool
	Mask   MCMask
	Rec    MCMember
}

// SAStatus is the status of an answer (IBTA 15.4.2); 0 is success.
type SAStatus uint16

const (
	SAOk                SAStatus = 0
	SANoResources       SAStatus = 0x0100
	SAReqInvalid        SAStatus = 0x0200
	SANoRecords         SAStatus = 0x0300
	SAInsufficientComps SAStatus = 0x0700
)

// SAReply is the answer, with the complete record if Status is SAOk.
type SAReply struct {
	Status SAStatus
	Rec    MCMember
}
