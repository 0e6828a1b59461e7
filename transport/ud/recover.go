package ud

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/rdma"
)

// recovery restarts a queue pair in the error state. It gets there when a send fails, as on rxe when the network
// interface is down, or when a packet exceeds a receive buffer, which on rxe of kernel 6.1 any host of the network can
// cause. A queue pair that no longer completes sends is restarted, too (stall). The packets in its queues are lost;
// memberships and attachments stay. Loop only.
type recovery struct {
	attr  rdma.QPAttr // attributes of a working queue pair
	send  *sendQueue
	recv  *recvQueue
	clock func() time.Duration
	log   *slog.Logger
	due   time.Duration // time of the next attempt
	pause time.Duration // between attempts
	last  time.Duration // time of the last attempt
	stall stall
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

// Pauses between attempts. If the queue pair, or a membership (member.backOff), has worked for longer than lastedFor
// there is no pause. Otherwise the pause doubles while the queue pair fails again within lastedShare times the next
// pause, as when the network interface is down, and is halved otherwise: so a host that occasionally causes the error
// cannot stop reception for long.
const (
	firstPause  = time.Millisecond
	lastPause   = 512 * time.Millisecond
	lastedFor   = 2 * time.Second
	lastedShare = 8
)

// reap polls the completions of sends for the loop. If a Sender is sending, which polls itself, the loop does not wait
// for the lock.
func (r *recovery) reap() (fault error) {
	q := r.send
	if !q.mu.TryLock() {
		if !q.broken.Load() {
			return nil
		}
		q.mu.Lock()
	}
	defer q.mu.Unlock()
	q.reap()
	if q.fault == nil && !q.inError && r.stall.watch(q, r.clock()) {
		return errStalled
	}
	return q.fault
}

// begin records that the queue pair is in error or stalls: nothing is sent until it has recovered. It returns any other
// cause.
func (r *recovery) begin(cause error) error {
	if !errors.Is(cause, errFlushed) && !errors.Is(cause, errStalled) {
		return cause
	}
	q := r.send
	if q.inError {
		return nil // a repeated report
	}
	q.mu.Lock()
	q.inError, q.fault = true, nil
	q.broken.Store(false)
	q.mu.Unlock()
	now := r.clock()
	switch lasted := now - r.last; {
	case r.last != 0 && lasted < 2*lastedShare*r.pause:
		r.pause = min(2*r.pause, lastPause)
	case r.last != 0 && lasted < lastedFor:
		r.pause = max(r.pause/2, firstPause)
	default:
		r.pause = 0
		line := &report.QueuePairInError
		if errors.Is(cause, errStalled) {
			line = &report.QueuePairStalled
		}
		line.Log(r.log, "err", cause)
	}
	r.due = now + r.pause
	return nil
}

// next is the time of the next attempt, or of the next check for sends that may never be completed.
func (r *recovery) next(now time.Duration) time.Duration {
	switch {
	case r.send.inError:
		return r.due
	case r.send.pending():
		return now + checkAgain
	}
	return never
}

// resume restarts the queue pair when it is due.
func (r *recovery) resume() error {
	if r.last = r.clock(); r.last < r.due {
		return nil
	}
	if err := r.restart(); err != nil {
		return fmt.Errorf("the queue pair cannot be restarted: %w", err)
	}
	return r.repost(1)
}

// repost posts free slots, unless the queue pair has failed.
func (r *recovery) repost(missing int) error {
	if r.send.inError {
		return nil
	}
	return r.recv.post(missing)
}

// restart resets the queue pair, which drops all work requests. Not every provider completes them before that, so
// restart treats all sends as completed, and all slots that are not lent as free.
func (r *recovery) restart() error {
	q := r.send
	r.recv.mu.Lock()
	defer r.recv.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.qp.Modify(rdma.QPAttr{State: rdma.QPReset}, rdma.QPMaskState); err != nil {
		return err
	}
	for _, cq := range []rdma.CQ{q.cq, r.recv.cq} {
		for n := 1; n > 0; {
			var err error
			if n, err = cq.Poll(q.wcs[:]); err != nil {
				return err
			}
		}
	}
	q.retire(q.posted.Load())
	r.recv.forget()
	for _, step := range []struct {
		to   rdma.QPState
		mask rdma.QPAttrMask
	}{
		{rdma.QPInit, rdma.QPMaskPKeyIndex | rdma.QPMaskPort | rdma.QPMaskQKey},
		{rdma.QPRTR, 0},
		{rdma.QPRTS, rdma.QPMaskSQPSN},
	} {
		attr := r.attr
		attr.State = step.to
		if err := q.qp.Modify(attr, step.mask|rdma.QPMaskState); err != nil {
			return err
		}
	}
	q.inError, q.uncompleted = false, false
	return nil
}
