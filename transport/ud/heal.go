package ud

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// healing is how a queue pair in error begins anew. It is in error when a send
// fails, as on rxe when the network interface is down, or when a packet came
// that a receive buffer does not hold, which on rxe of kernel 6.1 any host of the
// network can bring about. All that is in its queues is lost then, as packets can
// be; memberships and attachments stay. Loop only.
type healing struct {
	attr  rdma.QPAttr // of a queue pair that is well
	ill   bool
	due   time.Duration // when it is tried
	pause time.Duration // between attempts
	last  time.Duration // when it was tried
}

// Pauses between attempts. What is well for longer than wellFor begins without
// one, also a membership (member.rest).
const (
	firstPause = time.Millisecond
	lastPause  = 512 * time.Millisecond
	wellFor    = 2 * time.Second
)

// ail notes that the queue pair is in error: nothing is sent until it is healed.
// Another fault ends the transport.
func (t *Transport) ail(cause error) {
	h, q := &t.heal, &t.sq
	if !errors.Is(cause, errFlushed) {
		t.fail(cause)
		return
	}
	if h.ill || t.closing.Load() {
		return // what else is flushed says nothing new; and what ends needs no queue pair
	}
	q.mu.Lock()
	q.sick, q.fault = true, nil
	q.broken.Store(false)
	q.mu.Unlock()
	now := t.cfg.Clock()
	if h.last != 0 && now-h.last < wellFor {
		h.pause = min(max(2*h.pause, firstPause), lastPause)
	} else {
		h.pause = 0
		t.cfg.Logger.Warn("RDMA queue pair is in error and begins anew", "err", cause)
	}
	h.ill, h.due = true, now+h.pause
}

// treat heals the queue pair when it is time.
func (t *Transport) treat() {
	h := &t.heal
	if h.last = t.cfg.Clock(); h.last < h.due {
		return
	}
	if err := t.restart(); err != nil {
		t.fail(fmt.Errorf("the queue pair cannot begin anew: %w", err))
		return
	}
	h.ill = false
	t.repost(1)
}

// restart takes the queue pair through RESET, which forgets all work requests.
// Not every provider completes them before that, so what no completion says is
// concluded: everything sent is let go of, and every slot that is not lent is
// free.
func (t *Transport) restart() error {
	v, q := &t.verbs, &t.sq
	t.rq.mu.Lock()
	defer t.rq.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := v.qp.Modify(rdma.QPAttr{State: rdma.QPReset}, rdma.QPMaskState); err != nil {
		return err
	}
	for _, cq := range []rdma.CQ{v.send, v.recv} {
		for n := 1; n > 0; {
			var err error
			if n, err = cq.Poll(q.wcs[:]); err != nil {
				return err
			}
		}
	}
	q.retire(q.posted.Load())
	t.rq.forget()
	for _, step := range []struct {
		to   rdma.QPState
		mask rdma.QPAttrMask
	}{{rdma.QPInit, rdma.QPMaskPKeyIndex | rdma.QPMaskPort | rdma.QPMaskQKey}, {rdma.QPRTR, 0}, {rdma.QPRTS, rdma.QPMaskSQPSN}} {
		attr := t.heal.attr
		attr.State = step.to
		if err := v.qp.Modify(attr, step.mask|rdma.QPMaskState); err != nil {
			return err
		}
	}
	q.sick, q.mute = false, false
	return nil
}

// forget makes all slots free that are not lent. The caller holds mu.
func (q *recvQueue) forget() {
	q.from, q.to, q.posted = 0, 0, 0
	q.free = q.free[:0]
	for i := range q.slots {
		if q.slots[i].gen&1 == 0 {
			q.free = append(q.free, uint32(i))
		}
	}
}
