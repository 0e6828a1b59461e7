//go:build rdma && linux && cgo

package verbs

import (
	"sync"

	"github.com/fanfaremq/fanfare/rdma"
)

// maxAsync bounds the stored events, because a user may not retrieve them.
const maxAsync = 64

// asyncQueue has the device's latest events. They must always be read: the kernel's queue is unbounded, and they report
// changes of the port's MTU and errors of queues.
type asyncQueue struct {
	source
	mu    sync.Mutex
	items []rdma.AsyncEvent
}

func (a *asyncQueue) push(ev rdma.AsyncEvent) {
	a.mu.Lock()
	if len(a.items) == maxAsync {
		a.items = a.items[:copy(a.items, a.items[1:])]
	}
	a.items = append(a.items, ev)
	a.mu.Unlock()
	a.signal()
}

func (a *asyncQueue) pop() (ev rdma.AsyncEvent, err error) {
	if a.isClosed() {
		return ev, rdma.ClosedError("get async event", "device")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.items) == 0 {
		return ev, a.empty()
	}
	ev = a.items[0]
	n := copy(a.items, a.items[1:])
	a.items[n] = rdma.AsyncEvent{}
	a.items = a.items[:n]
	if n > 0 {
		a.signal()
	}
	return ev, nil
}

// drainAsync reads all events; the device's watch calls it.
func (d *device) drainAsync() {
	for {
		e, errno := d.ctx.NextAsync()
		if errno != 0 {
			return // EAGAIN, or EIO of a removed device
		}
		ev := rdma.AsyncEvent{Type: rdma.AsyncEventType(e.Type), Port: e.Port}
		// An object that was closed meanwhile is not found; then the event is irrelevant.
		if q := allQPs.get(e.QP); q != nil {
			ev.QP = q
		}
		if c := allCQs.get(e.CQ); c != nil {
			ev.CQ = c
			c.overrun.Store(true)
		}
		if ev.Type == rdma.AsyncDeviceFatal {
			d.removed.Store(true)
		}
		if ev.Port != 0 {
			_, _ = d.queryPort(ev.Port) // to update its MTU
		}
		d.async.push(ev)
	}
}
