package rdma

import (
	"context"
	"fmt"
)

// CQ is a completion queue; ibv_create_cq(3). It should be as large as all queues that report to it: when it overflows,
// it and its queue pairs go into the error state, and the device reports AsyncCQErr.
type CQ interface {
	// Poll moves completions, oldest first, to batch, and returns their number, which may be 0. It never waits and does
	// not allocate. An overflowed queue returns its completions, then EIO. ibv_poll_cq(3).
	Poll(batch []WorkCompletion) (int, error)
	// RequestNotify arms the queue: the next completion makes CompChannel.Wait return, once. A completion that arrived
	// before does not: poll again after arming. With solicited only errors, and completions of receives for which the
	// sender set SendSolicited, count. ibv_req_notify_cq(3). Error EINVAL: the queue has no channel.
	RequestNotify(solicited bool) error
	// Context is the context given at creation.
	Context() any
	// Entries is the number of completions the queue holds; at least the requested number.
	Entries() int
	// Close destroys the queue. Error EBUSY: queue pairs use it.
	Close() error
}

// CompChannel waits for the notifications of armed completion queues;
// ibv_create_comp_channel(3). A notification is acknowledged by retrieving it.
type CompChannel interface {
	// Wait returns the next queue that was armed and has a completion. ibv_get_cq_event(3).
	Wait(ctx context.Context) (CQ, error)
	// TryWait is like Wait, but returns ErrNoEvent instead of waiting.
	TryWait() (CQ, error)
	// Ready receives a value when TryWait may return a queue, at least once after each notification, for use in a select
	// with other sources.
	Ready() <-chan struct{}
	// Close closes the channel. Wait then returns an error that matches net.ErrClosed. Error EBUSY: completion queues use
	// the channel.
	Close() error
}

// WCStatus is enum ibv_wc_status, with its values.
type WCStatus uint8

// The statuses of UD. If the status is not success, only Status, WRID, QPN and VendorErr of the completion are valid.
const (
	WCSuccess      WCStatus = 0
	WCLocLenErr    WCStatus = 1  // the message does not fit into the buffer
	WCLocQPOpErr   WCStatus = 2  // the queue pair's state is inconsistent
	WCLocProtErr   WCStatus = 4  // memory outside the region of the L_Key
	WCWRFlushErr   WCStatus = 5  // the queue pair went into state ERR
	WCRemInvReqErr WCStatus = 9  // rxe with a shared receive queue: the receive buffer is too small
	WCFatalErr     WCStatus = 19 // the device failed
	WCGeneralErr   WCStatus = 21
)

func (s WCStatus) String() string {
	switch s {
	case WCSuccess:
		return "success"
	case WCLocLenErr:
		return "local length error"
	case WCLocQPOpErr:
		return "local QP operation error"
	case WCLocProtErr:
		return "local protection error"
	case WCWRFlushErr:
		return "flushed"
	case WCRemInvReqErr:
		return "remote invalid request error"
	case WCFatalErr:
		return "fatal error"
	case WCGeneralErr:
		return "general error"
	}
	return fmt.Sprintf("WCStatus(%d)", uint8(s))
}

// WCOpcode is enum ibv_wc_opcode, with its values.
type WCOpcode uint8

const (
	WCSend WCOpcode = 0
	WCRecv WCOpcode = 128
)

// WCFlags is enum ibv_wc_flags.
type WCFlags uint32

const (
	// WCGRH: the GRH area contains a header, as always for multicast.
	WCGRH WCFlags = 1
	// WCWithImm: the message has immediate data, in Imm.
	WCWithImm WCFlags = 2
)

// WorkCompletion is the result of a work request (struct ibv_wc). It contains no pointers.
type WorkCompletion struct {
	WRID      uint64
	Status    WCStatus
	Opcode    WCOpcode
	Flags     WCFlags
	VendorErr uint32
	// ByteLen of a receive is GRHBytes plus the length of the payload.
	ByteLen uint32
	// Imm is the sender's immediate data, in the same byte order.
	Imm    [4]byte
	QPN    QPN // the local queue pair's
	SrcQPN QPN // the sender's (DETH)
	// PKeyIndex is 0 for UD.
	PKeyIndex uint16
	// SLID, SL and DLIDPathBits are valid only on InfiniBand.
	SLID         LID
	SL           uint8
	DLIDPathBits uint8
}
