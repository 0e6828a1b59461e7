package rdma

import "fmt"

// QPType is enum ibv_qp_type, with its values.
type QPType uint8

const (
	QPTypeRC QPType = 2
	QPTypeUC QPType = 3
	// QPTypeUD is the type for multicast, and the only one with which providers send and receive. Others can be created,
	// and are rejected as the manual pages say.
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

// GRHBytes is the number of bytes at the start of every receive buffer of a UD queue pair for the global route header
// (InfiniBand) or the IP header (RoCE); see ParseGRH. So a receive buffer needs GRHBytes plus the port's MTU.
const GRHBytes = 40

// QPCap has the sizes of a queue pair (struct ibv_qp_cap).
type QPCap struct {
	MaxSendWR, MaxRecvWR   int // work requests
	MaxSendSGE, MaxRecvSGE int // scatter/gather elements of a work request
	MaxInlineData          int // bytes
}

// QPCreateFlags are creation flags (enum ibv_qp_create_flags).
type QPCreateFlags uint32

// QPBlockSelfMulticast: the queue pair does not receive its own packets to its groups. Few devices support it, and some
// ignore it, so filter by sender instead. rxe returns EOPNOTSUPP for any flag.
const QPBlockSelfMulticast QPCreateFlags = 2

// QPInitAttr has the attributes for creating a queue pair (struct ibv_qp_init_attr_ex).
type QPInitAttr struct {
	Type           QPType // default: UD, or the type of the id's port space
	SendCQ, RecvCQ CQ
	// Cap has the sizes. Zero elements mean 1; with zero work requests the queue does not exist. The actual sizes can be
	// larger, see QP.Cap.
	Cap QPCap
	// SignalAll: every send has a completion (sq_sig_all).
	SignalAll bool
	Flags     QPCreateFlags
}

// QPAttrMask has a bit for each field of a QPAttr to change (enum ibv_qp_attr_mask, with its values).
type QPAttrMask uint32

const (
	QPMaskState     QPAttrMask = 1 << 0
	QPMaskCurState  QPAttrMask = 1 << 1
	QPMaskPKeyIndex QPAttrMask = 1 << 4
	QPMaskPort      QPAttrMask = 1 << 5
	QPMaskQKey      QPAttrMask = 1 << 6
	QPMaskSQPSN     QPAttrMask = 1 << 16
)

// QPAttr has the changeable attributes of a UD queue pair (struct ibv_qp_attr).
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
	// QPN returns the queue pair's number.
	QPN() QPN
	// Type returns the queue pair's type.
	Type() QPType
	// Cap returns the actual sizes; ibv_query_qp(3).
	Cap() QPCap
	// Query returns the current attributes; ibv_query_qp(3).
	Query() (QPAttr, error)
	// Modify changes the attributes in mask; ibv_modify_qp(3). The transitions of UD need exactly these attributes: RESET
	// to INIT state, P_Key index, port and Q_Key; INIT to RTR state; RTR to RTS state and SQ_PSN; any to RESET or ERR
	// state. Errors: EINVAL if an attribute is missing or superfluous, the transition does not exist, or port or index are
	// unknown (kernel core/verbs.c, qp_state_table); EPERM for a Q_Key with bit 31 without privileges.
	Modify(attr QPAttr, mask QPAttrMask) error

	// PostSend posts work requests in order; ibv_post_send(3). It returns the number that it posted, and if not all, a
	// *PostError: EINVAL if the state is not RTS, or for a request without an address handle, with another opcode, or too
	// many elements or inline bytes; ENOMEM if the queue is full; EMSGSIZE if a request has more bytes than the port's MTU
	// (rxe accepts such a request, but sends nothing; IBTA C10-93.1.1). The memory must not change until the completion of
	// the request, or a later one in the queue, is polled. The place of a request without a completion is free only when
	// the completion of a later one is polled, so request one at least every half queue. PostSend does not allocate.
	PostSend(wrs []SendWR) (int, error)
	// PostRecv posts receive buffers; ibv_post_recv(3). It returns as PostSend does, with the errors ENOMEM if the queue
	// is full, and EINVAL if the state is RESET or a request has too many elements. A message is dropped if there is no
	// buffer, or if the buffer is smaller than GRHBytes plus the payload. PostRecv does not allocate.
	PostRecv(wrs []RecvWR) (int, error)

	// AttachMcast makes the queue pair receive a copy of each datagram that reaches the port for the group gid, lid;
	// ibv_attach_mcast(3). They reach the port only after a join. It works in any state; repeating it has no effect.
	// Errors: EINVAL if gid is not multicast, the queue pair is not UD, or, on InfiniBand, lid is not an MLID; ENOMEM if a
	// limit of DeviceAttr is reached; EOPNOTSUPP if the device does not support multicast (ENOSYS in older kernels and in
	// the manual page).
	AttachMcast(gid GID, lid LID) error
	// DetachMcast ends the attachment to the group gid, lid, however often it was attached; ibv_detach_mcast(3). Error
	// EINVAL: it is not attached.
	DetachMcast(gid GID, lid LID) error

	// Close destroys the queue pair and its work requests. ibv_destroy_qp(3). Error EBUSY: it is attached to a group.
	Close() error
}

// DropCounter is an optional interface of a QP, if its provider counts drops for which verbs has no counter.
type DropCounter interface {
	// Dropped returns the number of messages for the queue pair that were dropped because no receive buffer was posted, or
	// it was too small. It also works after Close.
	Dropped() uint64
}

// RefusalCounter is an optional interface of a QP, if its provider sends through the operating system. Sends that the
// system refuses (no route, a firewall) complete with success, because UD may lose datagrams.
type RefusalCounter interface {
	// Refused returns the number of refused datagrams, including those of the last PostSend.
	Refused() uint64
	// Refusal returns why the last datagram to dst was refused, nil if it was not.
	Refusal(dst GID) error
}

// SGE is a part of registered memory (struct ibv_sge).
type SGE struct {
	Buf  []byte
	LKey uint32
}

// SendFlags is enum ibv_send_flags.
type SendFlags uint32

const (
	SendSignaled  SendFlags = 2 // request a completion
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
	Imm    [4]byte // with OpSendWithImm; its byte order is kept
	AH     AH
	// QPN of the destination; ignored for a multicast AH, for which it is MulticastQPN.
	QPN QPN
	// QKey of the destination. Bit 31 set means the queue pair's own Q_Key (IBTA 10.2.5).
	QKey QKey
}

// RecvWR is a receive buffer (struct ibv_recv_wr).
type RecvWR struct {
	WRID uint64
	SG   []SGE
}
