//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// eventChannel is a channel of connection manager events.
//
// Its lock guards the channel's ids and their state in Go and C: retrieving an event reads and attaches the id's queue
// pair, and librdmacm has no lock against a concurrent leave of the group, after which the queue pair could stay
// attached. No C call waits while it is held, because every event is acknowledged in C before the lock is released.
type eventChannel struct {
	source
	host *provider
	c    cverbs.EventChannel
	w    *watch
	// expected is the number of pending events: until they are retrieved, TryGetEvent polls by itself and does not rely on
	// the netpoller.
	expected atomic.Int64

	mu    sync.Mutex
	shut  bool
	last  uint64
	ids   map[uint64]*id
	joins map[uint64]*membership

	// Guarded by host.mu: the number of destroyed ids that still exist in C, and whether the channel is closed but must
	// stay in C until they are destroyed.
	waiting  int
	detached bool
}

// NewEventChannel opens a channel.
func (p *provider) NewEventChannel() (rdma.EventChannel, error) {
	const op = "create event channel"
	c, errno := cverbs.NewEventChannel()
	if errno != 0 {
		return nil, noDevice(op, errno)
	}
	ch := &eventChannel{source: newSource(), host: p, c: c, ids: map[uint64]*id{}, joins: map[uint64]*membership{}}
	w, err := newWatch(op, c.FD(), ch.readable, ch.fail)
	if err != nil {
		c.Destroy()
		return nil, err
	}
	ch.w = w
	return ch, nil
}

// TryGetEvent retrieves the next event.
func (ch *eventChannel) TryGetEvent() (*rdma.Event, error) {
	const op = "get event"
	if !ch.edge.Load() && ch.expected.Load() == 0 && !ch.isClosed() && ch.fault.Load() == nil {
		return nil, rdma.ErrNoEvent
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for {
		if ch.shut {
			return nil, rdma.ClosedError(op, "event channel")
		}
		ch.edge.Store(false) // before reading, because a later event sets it again
		e, errno := ch.c.Next()
		if errno == syscall.EAGAIN {
			return nil, ch.empty()
		}
		if errno != 0 {
			return nil, check(op, errno)
		}
		ch.readable() // there may be more
		if ev := ch.event(&e); ev != nil {
			return ev, nil
		}
	}
}

// event returns the rdma.Event for a retrieved event, nil if its id or join no longer exists. The caller holds mu.
func (ch *eventChannel) event(e *cverbs.Event) *rdma.Event {
	o := ch.ids[e.ID]
	if o == nil {
		return nil
	}
	var m *membership
	typ := rdma.EventType(e.Type)
	switch typ {
	case rdma.EventMulticastJoin, rdma.EventMulticastError:
		if m = ch.joins[e.Join]; m == nil {
			return nil
		}
		ch.arrived(&m.expected)
		m.reported++
	case rdma.EventAddrResolved, rdma.EventAddrError, rdma.EventRouteResolved, rdma.EventRouteError:
		ch.arrived(&o.expected)
	case rdma.EventDeviceRemoval:
		o.removed = true
		if o.dev != nil {
			o.dev.removed.Store(true)
		}
	}
	o.reported++
	ev := rdma.NewEvent(typ, o, func() error { return ch.acknowledge(o, m) })
	ev.Status, ev.Context = e.Status, o.context
	if m == nil {
		return ev
	}
	ev.Context = m.context
	if typ == rdma.EventMulticastJoin || e.Status == -1 {
		ev.UD = rdma.UDParam{AHAttr: goAHAttr(e.AH), QPN: rdma.QPN(e.QPN), QKey: rdma.QKey(e.QKey),
			PrivateDataLen: e.PrivateDataLen}
	}
	if typ == rdma.EventMulticastError && e.Status == -1 {
		ev.Errno = e.AttachErr
	}
	return ev
}

// expect counts an event that will arrive.
func (ch *eventChannel) expect(flag *bool) {
	if !*flag {
		*flag = true
		ch.expected.Add(1)
	}
}

// arrived counts an event that has arrived or will not arrive.
func (ch *eventChannel) arrived(flag *bool) {
	if *flag {
		*flag = false
		ch.expected.Add(-1)
	}
}

// acknowledge is the Ack of an event of o, and of membership m if it is not nil.
func (ch *eventChannel) acknowledge(o *id, m *membership) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	o.acked++
	if m != nil {
		m.acked++
		m.settle()
	}
	o.settle()
	return nil
}

// GetEvent waits for the next event and retrieves it.
func (ch *eventChannel) GetEvent(ctx context.Context) (*rdma.Event, error) {
	return await(ctx, &ch.source, ch.TryGetEvent)
}

// Ready receives a value when TryGetEvent may return an event.
func (ch *eventChannel) Ready() <-chan struct{} { return ch.ready }

// Close closes the channel.
func (ch *eventChannel) Close() error {
	const op = "destroy event channel"
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if n := len(ch.ids); n > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "it has %d ids", n)
	}
	if ch.shut {
		return rdma.ClosedError(op, "event channel")
	}
	ch.w.stop()
	ch.host.destroyChannel(ch)
	ch.shut = true
	close(ch.closed)
	return nil
}
