package rdma

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
)

// EventType is enum rdma_cm_event_type, with its values.
type EventType int

// The events of ids of UD port spaces.
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

// UDParam has the parameters of a group from a multicast event that a sender to it needs (struct rdma_ud_param). The
// group's MTU is not included: see PortAttr.ActiveMTU.
type UDParam struct {
	AHAttr AHAttr
	QPN    QPN // MulticastQPN
	QKey   QKey
	// PrivateDataLen is 0 in multicast events: private_data is the context of the join and has no length.
	PrivateDataLen uint8
}

// Event is an event of an id (struct rdma_cm_event). Ack must be called for each retrieved event: leaving a group and
// destroying an id wait for it.
type Event struct {
	Type EventType
	// Status is 0, a negative errno, or -1 if attaching the queue pair failed while the event was retrieved; then Errno
	// has the reason. It can be 0 in a MULTICAST_ERROR, so check Type or Err.
	Status int
	Errno  syscall.Errno
	ID     ID
	// Context is the context of the join in multicast events (private_data), and the id's context in others.
	Context any
	// UD is set in a MULTICAST_JOIN, and in a MULTICAST_ERROR with status -1; it is zero in errors from the fabric.
	UD UDParam

	ack   func() error
	acked atomic.Bool
}

// NewEvent returns an event, for providers. Ack calls ack.
func NewEvent(typ EventType, id ID, ack func() error) *Event {
	return &Event{Type: typ, ID: id, ack: ack}
}

// Ack acknowledges the event; rdma_ack_cm_event(3). Objects in the event stay valid. Error EINVAL: it was already
// acknowledged.
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

// Err returns nil if the event reports success, and otherwise an *Error with an errno: EINVAL if the subnet
// administrator refused, ETIMEDOUT if it did not answer, ENETRESET if a membership was lost, or the errno of a failed
// AttachMcast. The errno of an error event with status 0 is EIO: the GID to which the id was bound was removed (kernel
// core/cma.c, cma_make_mc_event).
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

// EventChannel returns the events of its ids; rdma_create_event_channel(3).
type EventChannel interface {
	// CreateID makes an id that reports its events on this channel; rdma_create_id(3). ID.Context returns context. Error
	// EINVAL: no such port space.
	CreateID(ps PortSpace, context any) (ID, error)
	// GetEvent waits for an event and retrieves it; rdma_get_cm_event(3). With a MULTICAST_JOIN of a full member it
	// attaches the id's queue pair, if there is one, to the group. If that fails, it returns a MULTICAST_ERROR with status
	// -1 instead, and the membership lasts until it is left.
	GetEvent(ctx context.Context) (*Event, error)
	// TryGetEvent is like GetEvent, but returns ErrNoEvent instead of waiting.
	TryGetEvent() (*Event, error)
	// Ready receives a value when TryGetEvent may return an event, at least once after each event.
	Ready() <-chan struct{}
	// Close closes the channel. GetEvent then returns an error that matches net.ErrClosed. Error EBUSY: it has ids.
	Close() error
}
