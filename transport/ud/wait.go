package ud

import (
	"errors"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// waiter is how the loop sleeps: in the provider's waiter, if it has one; otherwise on the channels of completions and
// events, with armed completion queues.
type waiter struct {
	token chan struct{} // sent by Wake

	// Loop only.
	timer *time.Timer
	armed bool // a notification of the receive completion queue is requested

	mu  sync.Mutex
	own rdma.Waiter // nil: the provider has none. Under mu for Wake and for closing
}

// open checks whether the device has waiters.
func (w *waiter) open(dev rdma.Device) error {
	d, ok := dev.(rdma.Waiting)
	if !ok {
		return nil
	}
	own, err := d.NewWaiter()
	if errors.Is(err, rdma.ErrNotSupported) {
		return nil
	}
	w.own = own
	return err
}

func (w *waiter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.own
	if w.own = nil; own == nil {
		return nil
	}
	return own.Close()
}

// Wait implements transport.Transport. It is woken by completions, by events of the connection manager and by Wake. If
// the provider has no waiter (rdma.Waiting), the timeout is as coarse as Go's timers: 1 ms in an otherwise idle
// process.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.done.Load() {
		return errClosed
	}
	t.spin.idle = false
	if t.wait.own != nil {
		return t.waitOwn(timeout)
	}
	if timeout == 0 {
		select {
		case <-t.wait.token:
		default:
		}
		return nil
	}
	if t.closing.Load() {
		t.sleep(pollClose, false)
		return nil
	}
	t.watchPort()
	full := t.lent.Full()
	if !full && t.rq.unread() || t.events.Pending() || t.senders.dirty.Load() {
		return nil
	}
	t.repost(1)
	t.notified()
	if t.arm(!full) {
		return nil
	}
	if timeout = t.boundSleep(timeout); timeout != 0 {
		t.sleep(timeout, true)
	}
	return nil
}

// boundSleep bounds the sleep: by the caller's timeout, by memberships, by recovery of the queue pair, by sends that
// may never be completed, and by the next check of the port.
func (t *Transport) boundSleep(timeout time.Duration) time.Duration {
	if wait, ok := t.nextTry(); ok && (timeout < 0 || wait < timeout) {
		timeout = wait
	}
	if wait := max(0, t.recovery.due-t.cfg.Clock()); t.recovery.failed && (timeout < 0 || wait < timeout) {
		timeout = wait
	}
	if t.sq.pending() && !t.recovery.failed && (timeout < 0 || checkAgain < timeout) {
		timeout = checkAgain
	}
	return t.untilCheck(timeout)
}

// waitOwn is Wait with the provider's waiter, which requires that queues and channels are empty.
func (t *Transport) waitOwn(timeout time.Duration) error {
	switch limit := t.before(timeout); {
	case limit == 0 && timeout != 0:
		return nil
	case timeout != 0 && t.lent.Full() && !t.closing.Load():
		// The waiter would report the waiting packets again and again.
		t.sleep(limit, true)
		return nil
	default:
		return named("wait", t.wait.own.Wait(limit))
	}
}

// before is how long to wait with the provider's waiter, at most timeout: 0 if queues or channels are not empty.
func (t *Transport) before(timeout time.Duration) (limit time.Duration) {
	t.watchPort()
	full := t.lent.Full()
	switch {
	case t.closing.Load():
		return pollClose
	case timeout == 0: // only to read the token of Wake
		return 0
	case !full && t.rq.unread() || t.events.Pending() || t.senders.dirty.Load():
		return 0
	}
	t.repost(1)
	select {
	case <-t.verbs.ch.Ready():
		t.retrieve()
		return 0
	default:
	}
	if !full && t.pollReceives() || t.closing.Load() || t.sq.broken.Load() || t.sq.pending() && t.sq.advance() {
		return 0
	}
	return t.boundSleep(timeout)
}

// pollClose is how often Wait returns while the transport ends.
const pollClose = 200 * time.Microsecond

// sleep returns when woken, when timeout has passed or, with provider, on a notification of the provider. A negative
// timeout means no limit.
func (t *Transport) sleep(timeout time.Duration, provider bool) {
	w := &t.wait
	var after <-chan time.Time
	if timeout >= 0 {
		if w.timer == nil {
			w.timer = time.NewTimer(timeout)
		} else {
			w.timer.Reset(timeout)
		}
		after = w.timer.C
		defer w.timer.Stop()
	}
	var comp, events <-chan struct{}
	if provider {
		comp, events = t.verbs.comp.Ready(), t.verbs.ch.Ready()
	}
	select {
	case <-t.wait.token:
	case <-after:
	case <-comp:
		t.retrieveNotifications()
	case <-events:
		// Do what Poll does for the token just read.
		t.retrieve()
	}
}

// notified reads pending notifications, so that arm knows which queues are armed.
func (t *Transport) notified() {
	select {
	case <-t.verbs.comp.Ready():
		t.retrieveNotifications()
	default:
	}
}

func (t *Transport) retrieveNotifications() {
	for {
		cq, err := t.verbs.comp.TryWait()
		if err != nil {
			return // no more, or closed, which Poll reports
		}
		if cq == t.verbs.recv {
			t.wait.armed = false
			continue
		}
		t.sq.mu.Lock()
		t.sq.armed = false
		t.sq.mu.Unlock()
	}
}

// arm requests notifications and polls once more, because earlier completions cause none. It reports whether there is
// something to do; packets count only if they can be lent.
func (t *Transport) arm(packets bool) bool {
	w := &t.wait
	if packets && !w.armed {
		if err := t.verbs.recv.RequestNotify(false); err != nil {
			t.fail(named("ask for notification", err))
			return true
		}
		w.armed = true
	}
	if packets && t.pollReceives() || t.closing.Load() {
		return true
	}
	if !t.sq.pending() {
		return false
	}
	q := &t.sq
	q.mu.Lock()
	defer q.mu.Unlock()
	t.notifySends()
	return q.moved()
}

// notifySends arms the send completion queue, so that Wait returns when there is room again. The caller holds sq.mu.
func (t *Transport) notifySends() {
	if q := &t.sq; !q.armed && !q.dead {
		// It fails only if closed.
		q.armed = q.cq.RequestNotify(false) == nil
	}
}

// Wake implements transport.Transport.
func (t *Transport) Wake() {
	w := &t.wait
	select {
	case w.token <- struct{}{}:
	default: // a token is there already
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.own != nil {
		w.own.Wake()
	}
}
