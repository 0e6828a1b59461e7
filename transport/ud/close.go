package ud

import (
	"fmt"
	"net"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
)

// closer is how far the end is. Loop only.
//
// The order is that of the connection manager and of verbs: leave, with all events acknowledged; address handles; queue
// pair; completion queues, memory regions, protection domain; ids; event channel.
type closer struct {
	step     func() bool // reports that it is done, and sets the next
	deadline time.Duration
	pending  []rdma.Pending
	err      error // the first
	fault    error // why the transport ends without Close
}

const (
	// lingering is how long the end waits for sends that are under way, and
	// flushing for the queue pair to release the rest.
	lingering = 100 * time.Millisecond
	flushing  = time.Second
)

// Close implements transport.Transport. Polls then leave all groups, wait for
// sends that are under way, and give everything back.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.memory.freeze()
	t.Wake()
	return nil
}

// end is Poll after Close.
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

// final is what Poll returns permanently.
func (t *Transport) final() error {
	switch {
	case t.closer.fault != nil:
		return t.closer.fault
	case t.closer.err != nil:
		return fmt.Errorf("ud: %w; not everything could be given back: %w", net.ErrClosed, t.closer.err)
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

// over reports whether everything pending is done.
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

// linger waits for the leaves, and for what was sent last, including goodbyes. After that nothing is sent.
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
		// ERR completes all that is left, as flushed. If it fails, so will the rest, which is then reported.
		_ = t.verbs.qp.Modify(rdma.QPAttr{State: rdma.QPErr}, rdma.QPMaskState)
	}
	c.deadline = t.cfg.Clock() + flushing
	c.step = t.destroy
	return true
}

// destroy gives back address handles and queue pair, then all that they used.
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
	// Had the device not released everything in time, it has now.
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
