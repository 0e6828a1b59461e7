package ud

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/rdma"
)

// recovery restarts a queue pair in the error state. It gets there when a send fails, as on rxe when the network
// interface is down, or when a packet exceeds a receive buffer, which on rxe of kernel 6.1 any host of the network can
// cause. A queue pair that no longer completes sends is restarted, too (stall). The packets in its queues are lost;
// memberships and attachments stay. Loop only.
type recovery struct {
	attr   rdma.QPAttr // attributes of a working queue pair
	failed bool
	due    time.Duration // time of the next attempt
	pause  time.Duration // between attempts
	last   time.Duration // time of the last attempt
	stall  stall
}

// stall detects sends that are never completed: without it a publisher would hang without an error, because it depends
// on completions. rxe of kernel 6.1 stops at 64 packets queued in the network interface and registers for a callback
// when they have left; if they leave before it is registered, there is no callback until the next post (rxe_req.c,
// rxe_requester; rxe_net.c, rxe_skb_tx_dtor), and none follows if the queue is full or the sender waits. Loop only.
type stall struct {
	watching bool
	retired  uint64        // sendQueue.retired at the last check
	at       time.Duration // time of the last check
	stood    time.Duration // time since retired changed, as far as it counts
}

// stalledFor is how long posted sends may remain without any completion. A port takes microseconds, or as long as its
// link is paused, which is no reason to drop packets; subscribers wait longer for a silent publisher (reliable,
// lostFloor). The time between two checks counts at most as checkAgain, because the process may have been stopped.
const (
	stalledFor = time.Second
	checkAgain = stalledFor / 8
)

var errStalled = fmt.Errorf("no send was completed for %v", stalledFor)

// watch checks a queue after a reap, and reports whether it stalls.
func (s *stall) watch(q *sendQueue, now time.Duration) bool {
	retired := q.retired.Load()
	switch {
	case !q.pending():
		s.watching = false
	case !s.watching || s.retired != retired:
		*s = stall{watching: true, retired: retired, at: now}
	default:
		s.stood += min(now-s.at, checkAgain)
		s.at = now
		return s.stood >= stalledFor
	}
	return false
}

// Pauses between attempts. If the queue pair, or a membership (member.rest), has worked for longer than lastedFor there
// is no pause. Otherwise the pause doubles while the queue pair fails again within lastedShare times the next pause, as
// when the network interface is down, and is halved otherwise: so a host that occasionally causes the error cannot stop
// reception for long.
const (
	firstPause  = time.Millisecond
	lastPause   = 512 * time.Millisecond
	lastedFor   = 2 * time.Second
	lastedShare = 8
)

// queueFailed records that the queue pair is in error or stalls: nothing is sent until it has recovered. Any other
// cause ends the transport.
func (t *Transport) queueFailed(cause error) {
	h, q := &t.recovery, &t.sq
	if !errors.Is(cause, errFlushed) && !errors.Is(cause, errStalled) {
		t.fail(cause)
		return
	}
	if h.failed || t.closing.Load() {
		return // a repeated report, or the transport is ending
	}
	q.mu.Lock()
	q.failed, q.fault = true, nil
	q.broken.Store(false)
	q.mu.Unlock()
	now := t.cfg.Clock()
	switch lasted := now - h.last; {
	case h.last != 0 && lasted < 2*lastedShare*h.pause:
		h.pause = min(2*h.pause, lastPause)
	case h.last != 0 && lasted < lastedFor:
		h.pause = max(h.pause/2, firstPause)
	default:
		h.pause = 0
		line := &report.QueuePairInError
		if errors.Is(cause, errStalled) {
			line = &report.QueuePairStalled
		}
		line.Log(t.cfg.Logger, "err", cause)
	}
	h.failed, h.due = true, now+h.pause
}

// recoverQueue restarts the queue pair when it is due.
func (t *Transport) recoverQueue() {
	h := &t.recovery
	if h.last = t.cfg.Clock(); h.last < h.due {
		return
	}
	if err := t.restart(); err != nil {
		t.fail(fmt.Errorf("the queue pair cannot be restarted: %w", err))
		return
	}
	h.failed = false
	t.repost(1)
}

// restart resets the queue pair, which drops all work requests. Not every provider completes them before that, so
// restart treats all sends as completed, and all slots that are not lent as free.
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
	}{{rdma.QPInit, rdma.QPMaskPKeyIndex | rdma.QPMaskPort | rdma.QPMaskQKey}, {rdma.QPRTR,
		0}, {rdma.QPRTS, rdma.QPMaskSQPSN}} {
		attr := t.recovery.attr
		attr.State = step.to
		if err := v.qp.Modify(attr, step.mask|rdma.QPMaskState); err != nil {
			return err
		}
	}
	q.failed, q.uncompleted = false, false
	return nil
}

// forget frees all slots that are not lent. The caller holds mu.
func (q *recvQueue) forget() {
	q.from, q.to, q.posted = 0, 0, 0
	q.free = q.free[:0]
	for i := range q.slots {
		if q.slots[i].gen&1 == 0 {
			q.free = append(q.free, uint32(i))
		}
	}
}
