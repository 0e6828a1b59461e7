package rdma

import (
	"context"
	"fmt"
)

// CQ is a completion queue; ibv_create_cq(3). Make it as large as all queues that report to it: if it
// overflows it is in error, as are its queue pairs, and the device reports AsyncCQErr.
type CQ interface {
	// Poll moves completions, oldest first, to batch, and returns how many: 0 if there are none. It never waits and
	// allocates nothing. An overflowed queue returns its completions, then EIO. ibv_poll_cq(3).
	Poll(batch []WorkCompletion) (int, error)
	// RequestNotify arms the queue: the next completion makes CompChannel.Wait return, once. A completion that came before
	// does not: poll once more after arming. With solicited only completions of receives that the sender asked for
	// (SendSolicited) and errors count. ibv_req_notify_cq(3). EINVAL: the queue has no channel.
	RequestNotify(solicited bool) error
	// Context is the context given at creation.
	Context() any
	// Entries is the number of completions the queue holds; at least the requested number.
	Entries() int
	// Close destroys the queue. EBUSY: queue pairs use it.
	Close() error
}

// CompChannel waits for the notifications of armed completion queues;
// ibv_create_comp_channel(3). A notification is acknowledged by retrieving it.
type CompChannel interface {
	// Wait returns the next queue that was armed and has a completion. ibv_get_cq_event(3).
	Wait(ctx context.Context) (CQ, error)
	// TryWait is Wait that returns ErrNoEvent instead of waiting.
	TryWait() (CQ, error)
	// Ready receives a value whenever TryWait may have something, at least once for each time it came to have: for use in
	// a select with other sources.
	Ready() <-chan struct{}
	// Close closes the channel and ends waiting with an error that matches net.ErrClosed. EBUSY: completion queues use it.
	Close() error
}

// WCStatus is enum ibv_wc_status, with its values.
type WCStatus uint8

// The statuses that UD can have. After any but success only Status, WRID, QPN
// and VendorErr of the completion mean something.
const (
	WCSuccess      WCStatus = 0
	WCLocLenErr    WCStatus = 1  // the message does not fit
	WCLocQPOpErr   WCStatus = 2  // inconsistent queue pair
	WCLocProtErr   WCStatus = 4  // memory that the L_Key does not cover
	WCWRFlushErr   WCStatus = 5  // the queue pair went into ERR
	WCRemInvReqErr WCStatus = 9  // rxe with SRQ: short receive buffer
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
	// WCGRH says that the GRH area is filled; always so for multicast.
	WCGRH WCFlags = 1
	// WCWithImm says that Imm came with the message.
	WCWithImm WCFlags = 2
)

// WorkCompletion is the end of a work request (struct ibv_wc). It contains no pointers.
type WorkCompletion struct {
	WRID      uint64
	Status    WCStatus
	Opcode    WCOpcode
	Flags     WCFlags
	VendorErr uint32
	// ByteLen of a receive is GRHBytes and the payload's length.
	ByteLen uint32
	// Imm are the four bytes as the sender gave them.
	Imm    [4]byte
	QPN    QPN // the local queue pair's
	SrcQPN QPN // the sender's (DETH)
	// PKeyIndex is 0 for UD.
	PKeyIndex uint16
	// SLID, SL and DLIDPathBits mean something on InfiniBand only.
	SLID         LID
	SL           uint8
	DLIDPathBits uint8
}
