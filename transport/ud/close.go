package ud

import (
	"fmt"
	"net"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
)

// closer is the progress of closing. Loop only.
//
// The connection manager and verbs require this order: leave, with all events acknowledged; address handles; queue
// pair; completion queues, memory regions, protection domain; ids; event channel.
type closer struct {
	step     func() bool // returns whether it is done, and sets the next step
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

// Close implements transport.Transport. Later Polls leave all groups, wait for sends in progress, and free everything.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.memory.freeze()
	t.Wake()
	return nil
}

// end implements Poll after Close.
func (t *Transport) end() error {
	if t.done.Load() {
		return t.final()
	}
	c := &t.closer
	if c.step == nil {
		c.step = t.leaveAll
	}
	t.retrieve()
	for c.step() {
		if t.done.Load() {
			return t.final()
		}
	}
	return nil
}

// final is the error that Poll returns from then on.
func (t *Transport) final() error {
	switch {
	case t.closer.fault != nil:
		return t.closer.fault
	case t.closer.err != nil:
		return fmt.Errorf("ud: %w; not everything could be freed: %w", net.ErrClosed, t.closer.err)
	}
	return errClosed
}

func (c *closer) keep(what string, err error) {
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("%s: %w", what, err)
	}
}

// leaveAll begins all leaves.
func (t *Transport) leaveAll() bool {
	c := &t.closer
	for _, list := range [][]*member{t.members.receivers, t.members.senders} {
		for _, m := range list {
			switch {
			case m == nil:
			case m.phase == leaving:
				c.pending = append(c.pending, m.leave)
			case m.phase == joining || m.phase == in:
				if p, err := m.id.BeginLeave(t.addrs[m.group]); err == nil {
					c.pending = append(c.pending, p)
				}
			}
		}
	}
	t.members.todo = nil
	t.handles.stop(t)
	c.deadline = t.cfg.Clock() + lingering
	c.step = t.linger
	return true
}

// over reports whether all pending leaves are done.
func (c *closer) over() bool {
	for len(c.pending) > 0 {
		last := len(c.pending) - 1
		if !c.pending[last].Done() {
			return false
		}
		c.pending = c.pending[:last]
	}
	return true
}

// linger waits for the leaves, and for the last sends, including end-of-stream packets. After that nothing is sent.
func (t *Transport) linger() bool {
	c, q := &t.closer, &t.sq
	if !c.over() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reap()
	if q.pending() && q.fault == nil && t.cfg.Clock() < c.deadline {
		return false
	}
	q.dead = true
	if q.pending() {
		// State ERR flushes all remaining work requests. If this fails later steps fail, too, and report the error.
		_ = t.verbs.qp.Modify(rdma.QPAttr{State: rdma.QPErr}, rdma.QPMaskState)
	}
	c.deadline = t.cfg.Clock() + flushing
	c.step = t.destroy
	return true
}

// destroy frees address handles and the queue pair, then everything that they used.
func (t *Transport) destroy() bool {
	c, q := &t.closer, &t.sq
	t.rq.mu.Lock()
	defer t.rq.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reap()
	if q.pending() && t.cfg.Clock() < c.deadline || !t.handles.over() {
		return false
	}
	for i := range t.routes {
		if r := t.routes[i].Swap(nil); r != nil && r.ah != nil {
			q.closeLater(r.ah)
		}
	}
	for p := range t.peers.All() {
		if p.ah != nil {
			q.closeLater(p.ah)
		}
	}
	t.peers = peers.New[source, peer](1)
	t.rq.dead = true
	t.counts.drops.close()
	c.keep("destroy queue pair", t.verbs.rx.DestroyQP())
	// If the device had not released everything in time, it has now.
	q.retire(q.posted.Load())
	c.keep("close", t.closeObjects())
	for _, id := range []rdma.ID{t.verbs.rx, t.verbs.tx} {
		p, err := id.BeginDestroy()
		if err != nil {
			c.keep("destroy id", err)
			continue
		}
		c.pending = append(c.pending, p)
	}
	c.step = t.finish
	return true
}

// closeObjects closes the objects between queue pair and ids. It returns the first error.
func (t *Transport) closeObjects() error {
	v, c := &t.verbs, closer{}
	t.port.close()
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
	if !c.over() {
		return false
	}
	c.keep("close event channel", t.verbs.ch.Close())
	t.done.Store(true)
	t.memory.end()
	return true
}
