package soft

import (
	"context"
	"errors"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// EventChannel is a channel of connection manager events.
type EventChannel struct {
	host *Host
	box  *mailbox[*cmEvent]
	ids  int // guarded by Host.cm
}

// cmEvent is an event that has not been retrieved yet.
type cmEvent struct {
	id     *ID
	typ    rdma.EventType
	status int
	m      *membership // of a multicast event
	ud     rdma.UDParam
}

func newEventChannel(h *Host) *EventChannel {
	return &EventChannel{host: h, box: newMailbox[*cmEvent]("event channel", 0)}
}

// TryGetEvent retrieves the next event.
func (c *EventChannel) TryGetEvent() (*rdma.Event, error) {
	c.host.cm.Lock()
	defer c.host.cm.Unlock()
	ev, err := c.box.pop("get event")
	if err != nil {
		return nil, err
	}
	return c.host.retrieve(ev), nil
}

// GetEvent waits for the next event and retrieves it.
func (c *EventChannel) GetEvent(ctx context.Context) (*rdma.Event, error) {
	return await(ctx, c.box, c.TryGetEvent)
}

// Ready receives a value when TryGetEvent may return an event.
func (c *EventChannel) Ready() <-chan struct{} { return c.box.ready }

// Close closes the channel.
func (c *EventChannel) Close() error {
	const op = "destroy event channel"
	c.host.cm.Lock()
	defer c.host.cm.Unlock()
	if c.ids > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "it has %d ids", c.ids)
	}
	if !c.box.close() {
		return rdma.ClosedError(op, "event channel")
	}
	return nil
}

// retrieve returns the rdma.Event for a queued event. For the JOIN of a full member it attaches the id's queue pair;
// not earlier, and in the retrieving goroutine (librdmacm cma.c, ucma_process_join). The caller holds cm.
func (h *Host) retrieve(q *cmEvent) *rdma.Event {
	id, m := q.id, q.m
	id.reported++
	ev := rdma.NewEvent(q.typ, id, func() error { return h.acknowledge(id, m) })
	ev.Status, ev.UD, ev.Context = q.status, q.ud, id.context
	if m == nil {
		return ev
	}
	m.reported++
	ev.Context = m.context
	if q.typ != rdma.EventMulticastJoin {
		return ev
	}
	m.mgid, m.mlid = q.ud.AHAttr.GRH.DGID, q.ud.AHAttr.DLID
	if id.qp == nil || m.flags == rdma.JoinSendOnlyFullMember {
		return ev
	}
	if err := id.qp.AttachMcast(m.mgid, m.mlid); err != nil {
		ev.Type, ev.Status = rdma.EventMulticastError, -1
		errors.As(err, &ev.Errno)
	}
	return ev
}

// acknowledge is the Ack of an event of id, and of membership m if it is not nil.
func (h *Host) acknowledge(id *ID, m *membership) error {
	h.cm.Lock()
	defer h.cm.Unlock()
	id.acked++
	if m != nil {
		m.acked++
		m.settle()
	}
	id.settle()
	return nil
}
