package ud

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/rdma"
)

// closer is the progress of closing. Loop only.
//
// The connection manager and verbs require this order: leave, with all events acknowledged; address handles; queue
// pair; completion queues, memory regions, protection domain; ids; event channel.
type closer struct {
	steps    []func() bool // the remaining ones; each reports whether it is done
	deadline time.Duration
	pending  []rdma.Pending
	err      error // the first error
	fault    error // why the transport ends without Close; nil: Close was called
}

const (
	// lingering is how long closing waits for sends in progress, and flushing for the queue pair to release the rest.
	lingering = 100 * time.Millisecond
	flushing  = time.Second
)

func (c *closer) keep(what string, err error) {
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("%s: %w", what, err)
	}
}

// settled reports whether all pending operations are done.
func (c *closer) settled() bool {
	c.pending = slices.DeleteFunc(c.pending, rdma.Pending.Done)
	return len(c.pending) == 0
}

// result is the error that Poll returns after the end.
func (c *closer) result() error {
	switch {
	case c.fault != nil:
		return c.fault
	case c.err != nil:
		return fmt.Errorf("ud: %w; not everything could be freed: %w", net.ErrClosed, c.err)
	}
	return errClosed
}

// Close implements transport.Transport. Later Polls leave all groups, wait for sends in progress, and free everything.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.memory.freeze()
	t.wait.wake()
	return nil
}

// fail ends the transport with an error, which Poll then returns; nil does nothing.
func (t *Transport) fail(err error) {
	if err == nil || t.closing.Load() {
		return // if it is closing already, closed queue pairs flush
	}
	t.closer.fault = fmt.Errorf("ud: %w", err)
	report.TransportFailed.Log(t.log, "err", err)
	_ = t.Close()
}

// end implements Poll after Close.
func (t *Transport) end() error {
	c := &t.closer
	if c.steps == nil {
		c.steps = []func() bool{t.leaveAll, t.linger, t.destroy, t.finish}
	}
	if len(c.steps) > 0 {
		t.retrieve()
	}
	for len(c.steps) > 0 {
		if !c.steps[0]() {
			return nil
		}
		c.steps = c.steps[1:]
	}
	return c.result()
}

// leaveAll begins all leaves.
func (t *Transport) leaveAll() bool {
	t.closer.pending = t.members.end()
	t.handles.stop()
	t.closer.deadline = t.clock() + lingering
	return true
}

// linger waits for the leaves, and for the last sends, including end-of-stream packets. After that nothing is sent.
func (t *Transport) linger() bool {
	c := &t.closer
	if !c.settled() || !t.send.drain(t.clock() >= c.deadline) {
		return false
	}
	c.deadline = t.clock() + flushing
	return true
}

// destroy frees address handles and the queue pair, then everything that they used.
func (t *Transport) destroy() bool {
	c := &t.closer
	if !t.send.flushed() && t.clock() < c.deadline || !t.handles.stopped() {
		return false
	}
	for i := range t.senders.routes {
		t.senders.detach(i, t.send)
	}
	t.handles.end()
	t.recv.end()
	t.drops.close()
	c.keep("destroy queue pair", t.verbs.rx.DestroyQP())
	// If the device had not released everything in time, it has now.
	t.send.end()
	c.keep("close", t.closeObjects())
	for _, id := range []rdma.ID{t.verbs.rx, t.verbs.tx} {
		p, err := id.BeginDestroy()
		if err != nil {
			c.keep("destroy id", err)
			continue
		}
		c.pending = append(c.pending, p)
	}
	return true
}

// closeObjects closes the objects between queue pair and ids. It returns the first error.
func (t *Transport) closeObjects() error {
	v, c := &t.verbs, closer{}
	if t.port.dev != nil {
		_ = t.port.dev.Close() // no object was made from it
	}
	for _, cq := range []rdma.CQ{v.recv, v.send} {
		if cq != nil {
			c.keep("destroy completion queue", cq.Close())
		}
	}
	if v.comp != nil {
		c.keep("destroy completion channel", v.comp.Close())
	}
	c.keep("deregister memory", t.memory.deregister())
	if v.pd != nil {
		c.keep("free protection domain", v.pd.Close())
	}
	c.keep("close waiter", t.wait.close())
	return c.err
}

// finish closes the event channel when the ids are gone.
func (t *Transport) finish() bool {
	c := &t.closer
	if !c.settled() {
		return false
	}
	c.keep("close event channel", t.verbs.ch.Close())
	t.done.Store(true)
	t.memory.end()
	return true
}
