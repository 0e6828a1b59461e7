package soft

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// Backend is a device's connection to its fabric. Its methods are called with locks of this package
// held: they must not call into it before they return.
type Backend interface {
	// After calls f once, when d has passed; with 0, soon. It is the work queue of the kernel: f never runs within After.
	// cancel, called before f began, keeps it from running; it does not wait for f.
	After(d time.Duration, f func()) (cancel func())
	// SA sends a request of the port to the subnet administrator and calls
	// done with the answer; never, if none comes. InfiniBand ports only.
	SA(port uint8, req SARequest, done func(SAReply))
	// JoinIP makes the port's network interface a member of an IP multicast group (IGMP, MLD), and LeaveIP ends that. They
	// are called for the first and the last membership of a port. Ethernet ports only. The error's errno is that of the
	// join.
	JoinIP(port uint8, group netip.Addr) error
	LeaveIP(port uint8, group netip.Addr)
	// Transmit sends datagrams of one queue pair, in order, and returns how many it took. Their memory is not read after
	// it returned. If it takes fewer than all, the provider calls QP.Resume when it can take more.
	Transmit(q *QP, batch []Datagram) int
	// Progress receives. CQ.Poll calls it when the queue is empty, with no lock held: if queue pairs
	// receive by the queue, or if a queue pair of the device waits to be resumed. It may call
	// Device.Deliver. It reports whether completions may have been added.
	Progress() bool
	// Drain delivers datagrams that have reached the port and wait, before a leave detaches
	// the queue pair. It is called with Host.cm held.
	Drain()
	// Arm has completions come without being polled. It is called when a completion queue was armed, or the backend did
	// not take all datagrams. As long as Device.Armed says so, the backend delivers what arrives, and resumes.
	Arm()
	// NewQP gives a queue pair its number before it is made (Device.NextQPN, unless the
	// backend has numbers of its own), and CloseQP is called when it is destroyed.
	NewQP() (rdma.QPN, error)
	CloseQP(rdma.QPN)
	// Attached is called for the first attachment of a group, and Detached when the last is
	// gone. An error refuses the attachment.
	Attached(gid rdma.GID) error
	Detached(gid rdma.GID)
	// NewWaiter makes a waiter: see rdma.Waiting.
	NewWaiter() (rdma.Waiter, error)
}

// Passive has the methods of a Backend that one leaves out which keeps nothing for queue
// pairs and groups, and hands over what arrives by itself: they do nothing.
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

// NewWaiter implements Backend: there are none.
func (Passive) NewWaiter() (rdma.Waiter, error) {
	return nil, rdma.Errorf("create waiter", syscall.EOPNOTSUPP, "the device has none: use a completion channel")
}

// Datagram is a UD message in transmission. In Transmit its payload is SG, in Deliver it is a separate argument.
type Datagram struct {
	Port            uint8 // that sends it
	SrcQPN, DestQPN rdma.QPN
	QKey            rdma.QKey
	PKey            rdma.PKey
	PSN             uint32 // 24 bits; one more for each datagram of a queue pair
	SLID, DLID      rdma.LID
	SL              uint8
	HasImm          bool
	Solicited       bool
	Imm             [4]byte
	// Net are the addresses and what else the GRH or IP header has.
	Net rdma.Header
	// SG is the payload, Len bytes in all.
	SG  []rdma.SGE
	Len int
	// GRH, if not nil, are the GRHBytes bytes for the receive buffer, as received, except Arrival.ID;
	// otherwise they are made from Net.
	GRH []byte
}

// AppendPayload appends the payload of a datagram in Transmit to b.
func (d *Datagram) AppendPayload(b []byte) []byte {
	for i := range d.SG {
		b = append(b, d.SG[i].Buf...)
	}
	return b
}

// headerBytes is what BTH, DETH, ImmDt and ICRC add to the payload.
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
	MTU          uint8 // coded: 1 is 256 bytes
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

// MCMask is the component mask of a request: which fields are meant.
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

// SAReply is the answer, with the whole record if Status is SAOk.
type SAReply struct {
	Status SAStatus
	Rec    MCMember
}
