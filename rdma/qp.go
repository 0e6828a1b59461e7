package rdma

import "fmt"

// QPType is enum ibv_qp_type, with its values.
type QPType uint8

const (
	QPTypeRC QPType = 2
	QPTypeUC QPType = 3
	// QPTypeUD is the type for multicast, and the only one on which providers carry data; others can be
	// created, and refused where the manual pages say so.
	QPTypeUD QPType = 4
)

// QPState is enum ibv_qp_state, with its values.
type QPState uint8

const (
	QPReset QPState = 0
	QPInit  QPState = 1 // receives can be posted
	QPRTR   QPState = 2 // ready to receive
	QPRTS   QPState = 3 // ready to send
	QPSQD   QPState = 4 // send queue drained
	QPSQE   QPState = 5 // send queue in error
	QPErr   QPState = 6
)

func (s QPState) String() string {
	if s > QPErr {
		return fmt.Sprintf("QPState(%d)", uint8(s))
	}
	return [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}[s]
}

// GRHBytes is the room at the start of every receive buffer of a UD queue pair, filled with the global route header
// (InfiniBand) or the IP header (RoCE); see ParseGRH. A receive buffer, a slot, thus has GRHBytes and the port's MTU.
const GRHBytes = 40

// QPCap are the sizes of a queue pair (struct ibv_qp_cap).
type QPCap struct {
	MaxSendWR, MaxRecvWR   int // work requests
	MaxSendSGE, MaxRecvSGE int // elements in one
	MaxInlineData          int // bytes
}

// QPCreateFlags are creation flags (enum ibv_qp_create_flags).
type QPCreateFlags uint32

// QPBlockSelfMulticast asks that the queue pair does not receive its own packets to its groups. Few
// devices support it, and some ignore it: filter by sender instead. rxe: EOPNOTSUPP for any flag.
const QPBlockSelfMulticast QPCreateFlags = 2

// QPInitAttr has the attributes for creating a queue pair (struct ibv_qp_init_attr_ex).
type QPInitAttr struct {
	Type           QPType // default: UD, or that of the id's port space
	SendCQ, RecvCQ CQ
	// Cap: zero elements mean 1; zero work requests mean that the queue does
	// not exist. The result can be more, see QP.Cap.
	Cap QPCap
	// SignalAll makes every send give a completion (sq_sig_all).
	SignalAll bool
	Flags     QPCreateFlags
}

// QPAttrMask says which fields of a QPAttr are meant (enum ibv_qp_attr_mask, with its values).
type QPAttrMask uint32

const (
	QPMaskState     QPAttrMask = 1 << 0
	QPMaskCurState  QPAttrMask = 1 << 1
	QPMaskPKeyIndex QPAttrMask = 1 << 4
	QPMaskPort      QPAttrMask = 1 << 5
	QPMaskQKey      QPAttrMask = 1 << 6
	QPMaskSQPSN     QPAttrMask = 1 << 16
)

// QPAttr are the attributes of a UD queue pair that change (struct ibv_qp_attr).
type QPAttr struct {
	State     QPState
	CurState  QPState
	PKeyIndex uint16
	Port      uint8
	QKey      QKey
	SQPSN     uint32 // 24 bits
}

// QP is a queue pair; ibv_create_qp(3).
type QP interface {
	// QPN is the queue pair's number.
	QPN() QPN
	// Type of the queue pair.
	Type() QPType
	// Cap is the actual capacity of the queue pair; ibv_query_qp(3).
	Cap() QPCap
	// Query returns the present attributes; ibv_query_qp(3).
	Query() (QPAttr, error)
	// Modify changes what mask names; ibv_modify_qp(3). UD goes RESET to INIT with exactly state, P_Key index, port and
	// Q_Key; INIT to RTR with state; RTR to RTS with state and SQ_PSN; any to RESET or ERR with state. EINVAL: an
	// attribute is missing, or too many, the transition does not exist, or no such port or index (kernel core/verbs.c,
	// qp_state_table). EPERM: a Q_Key with bit 31 without privilege.
	Modify(attr QPAttr, mask QPAttrMask) error

	// PostSend posts work requests in order; ibv_post_send(3). It returns how many it took; if not all, a *PostError:
	// EINVAL: the state is not RTS, no address handle, another opcode, too many elements or inline bytes; ENOMEM: the
	// queue is full; EMSGSIZE: more bytes than the port's MTU, of which nothing was posted (rxe takes it and sends
	// nothing; IBTA C10-93.1.1). The memory must not change until the completion, this one's or a later one's of the
	// queue, is polled. The room of a request that asked for no completion is free again only when a later one's is
	// polled: signal at least every half queue. Nothing is allocated.
	PostSend(wrs []SendWR) (int, error)
	// PostRecv posts receive buffers; ibv_post_recv(3). ENOMEM: the queue is full; EINVAL: the state is RESET, or too many
	// elements. A message that finds no buffer, or one smaller than GRHBytes and its payload, is dropped. Nothing is
	// allocated.
	PostRecv(wrs []RecvWR) (int, error)

	// AttachMcast makes the queue pair receive a copy of each datagram that reaches the port for group gid, lid;
	// ibv_attach_mcast(3). That they reach it takes a join. It works in any state, and once more does nothing. EINVAL: gid
	// is not multicast, the queue pair is not UD, or, on InfiniBand, lid is not in the range of MLIDs; ENOMEM: a limit of
	// DeviceAttr; EOPNOTSUPP: the device has no multicast (ENOSYS in older kernels and in the manual page).
	AttachMcast(gid GID, lid LID) error
	// DetachMcast undoes any number of AttachMcast; ibv_detach_mcast(3). EINVAL: the pair of gid and lid is not attached.
	DetachMcast(gid GID, lid LID) error

	// Close destroys the queue pair; work requests in it are forgotten.
	// ibv_destroy_qp(3). EBUSY: it is attached to a group.
	Close() error
}

// DropCounter is an optional interface of a QP, if its provider counts drops for which verbs has no counter.
type DropCounter interface {
	// Dropped counts messages for the queue pair that found no receive buffer, or one that was too
	// small. It also works after Close.
	Dropped() uint64
}

// RefusalCounter is an optional interface of a QP, if its provider sends through the operating system. Sends that the
// system refuses (no route, a firewall) complete with success, since UD may lose datagrams.
type RefusalCounter interface {
	// Refused is how many datagrams were refused, including those of a PostSend that has returned.
	Refused() uint64
	// Refusal is why the last datagram to dst was refused; nil: it was not.
	Refusal(dst GID) error
}

// SGE is a piece of registered memory (struct ibv_sge).
type SGE struct {
	Buf  []byte
	LKey uint32
}

// SendFlags is enum ibv_send_flags.
type SendFlags uint32

const (
	SendSignaled  SendFlags = 2 // give a completion
	SendSolicited SendFlags = 4 // see CQ.RequestNotify
	// SendInline copies the message when it is posted; the memory need not be registered.
	SendInline SendFlags = 8
)

// SendOpcode is enum ibv_wr_opcode.
type SendOpcode uint8

const (
	OpSend        SendOpcode = 2
	OpSendWithImm SendOpcode = 3
)

// SendWR is a datagram to send (struct ibv_send_wr).
type SendWR struct {
	WRID   uint64
	SG     []SGE
	Opcode SendOpcode
	Flags  SendFlags
	Imm    [4]byte // sent as it is, with OpSendWithImm
	AH     AH
	// QPN of the destination; for a multicast AH MulticastQPN is sent whatever stands here.
	QPN QPN
	// QKey of the destination. Bit 31 set means the queue pair's own Q_Key (IBTA 10.2.5).
	QKey QKey
}

// RecvWR is a receive buffer (struct ibv_recv_wr).
type RecvWR struct {
	WRID uint64
	SG   []SGE
}
