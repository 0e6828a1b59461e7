package rdma

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
)

// EventType is enum rdma_cm_event_type, with its values.
type EventType int

// The events that ids of UD groups have.
const (
	EventAddrResolved   EventType = 0
	EventAddrError      EventType = 1
	EventRouteResolved  EventType = 2
	EventRouteError     EventType = 3
	EventDeviceRemoval  EventType = 11
	EventMulticastJoin  EventType = 12
	EventMulticastError EventType = 13
	EventAddrChange     EventType = 14
)

func (t EventType) String() string {
	switch t {
	case EventAddrResolved:
		return "ADDR_RESOLVED"
	case EventAddrError:
		return "ADDR_ERROR"
	case EventRouteResolved:
		return "ROUTE_RESOLVED"
	case EventRouteError:
		return "ROUTE_ERROR"
	case EventDeviceRemoval:
		return "DEVICE_REMOVAL"
	case EventMulticastJoin:
		return "MULTICAST_JOIN"
	case EventMulticastError:
		return "MULTICAST_ERROR"
	case EventAddrChange:
		return "ADDR_CHANGE"
	}
	return fmt.Sprintf("EventType(%d)", int(t))
}

// UDParam is what a sender to the group needs from a multicast event (struct rdma_ud_param). The
// group's MTU is not included: see PortAttr.ActiveMTU.
type UDParam struct {
	AHAttr AHAttr
	QPN    QPN // MulticastQPN
	QKey   QKey
	// PrivateDataLen is 0 in multicast events: private_data is the context of the join, no bytes.
	PrivateDataLen uint8
}

// Event is an event of an id (struct rdma_cm_event). Ack must be called for
// each that was retrieved: leaving a group and destroying an id wait for it.
type Event struct {
	Type EventType
	// Status is 0, a negative errno, or -1 when attaching the queue pair failed while the event was retrieved; Errno then
	// says why. It can be 0 in a MULTICAST_ERROR: judge by Type, or by Err.
	Status int
	Errno  syscall.Errno
	ID     ID
	// Context is that of the join in a multicast event (private_data), and that of the id in others.
	Context any
	// UD is set in a MULTICAST_JOIN, and in a MULTICAST_ERROR with status -1; it is zero in errors from the fabric.
	UD UDParam

	ack   func() error
	acked atomic.Bool
}

// NewEvent is for providers: it returns an event with what Ack is to do.
func NewEvent(typ EventType, id ID, ack func() error) *Event {
	return &Event{Type: typ, ID: id, ack: ack}
}

// Ack acknowledges the event; rdma_ack_cm_event(3). Objects that the event points to stay valid.
// EINVAL: it was acknowledged before.
func (e *Event) Ack() error {
	if e == nil {
		return Errorf("ack event", syscall.EINVAL, "no event")
	}
	if e.acked.Swap(true) {
		return Errorf("ack event", syscall.EINVAL, "%v was acknowledged before", e.Type)
	}
	if e.ack == nil {
		return nil
	}
	return e.ack()
}

// Err is nil if the event reports success; otherwise it is an *Error with the known errno: EINVAL if
// the subnet administrator refused, ETIMEDOUT if it did not answer, ENETRESET if a membership was lost,
// that of AttachMcast if it failed. An error event with status 0 is an error too (EIO): the GID that
// the id was bound to has been removed (kernel core/cma.c, cma_make_mc_event).
func (e *Event) Err() error {
	switch e.Type {
	case EventAddrResolved, EventRouteResolved, EventMulticastJoin, EventAddrChange:
		return nil
	case EventDeviceRemoval:
		return Errorf(e.Type.String(), syscall.ENODEV, "device was removed")
	}
	switch {
	case e.Status == -1 && e.Errno != 0:
		return Errorf(e.Type.String(), e.Errno, "attaching the queue pair failed")
	case e.Status < 0:
		return Errorf(e.Type.String(), syscall.Errno(-e.Status), "status %d", e.Status)
	}
	return Errorf(e.Type.String(), syscall.EIO, "status %d", e.Status)
}

// EventChannel carries the events of its ids; rdma_create_event_channel(3).
type EventChannel interface {
	// CreateID makes an id that reports its events on this channel; rdma_create_id(3). context is for the caller. EINVAL:
	// no such port space.
	CreateID(ps PortSpace, context any) (ID, error)
	// GetEvent waits for an event and retrieves it; rdma_get_cm_event(3). When it retrieves a MULTICAST_JOIN of a full
	// member, it attaches the id's queue pair, if there is one, to the group. An attachment that fails makes it a
	// MULTICAST_ERROR with status -1, and the membership remains until left.
	GetEvent(ctx context.Context) (*Event, error)
	// TryGetEvent is GetEvent that returns ErrNoEvent instead of waiting.
	TryGetEvent() (*Event, error)
	// Ready receives a value whenever TryGetEvent may have something, at least once for each time it came to have.
	Ready() <-chan struct{}
	// Close closes the channel and ends waiting with an error that matches net.ErrClosed. EBUSY: ids are left on it.
	Close() error
}
