package ud

import "time"

// Wait implements transport.Transport. It is woken by completions, by events of the connection manager and by Wake. If
// the provider has no waiter (rdma.Waiting), the timeout is as coarse as Go's timers: 1 ms in an otherwise idle
// process.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.done.Load() {
		return errClosed
	}
	t.recv.spinning = false
	limit := t.before(timeout)
	switch own := t.wait.own; {
	case own == nil && timeout == 0:
		select {
		case <-t.wait.token:
		default:
		}
	case limit == 0 && timeout != 0:
	case own == nil || timeout != 0 && t.recv.lent.Full() && !t.closing.Load():
		// The provider's waiter would report packets that cannot be lent again and again.
		t.sleep(limit, !t.closing.Load())
	default:
		return named("wait", own.Wait(limit))
	}
	return nil
}

// boundSleep bounds the sleep: by the caller's timeout, by memberships, by recovery of the queue pair, by sends that
// may never be completed, and by the next check of the port.
func (t *Transport) boundSleep(timeout time.Duration) time.Duration {
	now := t.clock()
	next := min(t.members.next(now), t.recovery.next(now), t.port.checkAt)
	if next == never {
		return timeout
	}
	wait := max(0, next-now)
	if timeout < 0 {
		return wait
	}
	return min(timeout, wait)
}

// before is how long to sleep, at most timeout: 0 if queues or channels are not empty, which the provider's waiter
// requires. Without such a waiter it requests notifications.
func (t *Transport) before(timeout time.Duration) (limit time.Duration) {
	channels := t.wait.own == nil
	if timeout != 0 || !channels {
		t.watchPort()
	}
	full := t.recv.lent.Full()
	switch {
	case t.closing.Load():
		return pollClose
	case timeout == 0: // only to read the token of Wake
		return 0
	case !full && t.recv.unread() || t.members.events.Pending() || t.senders.dirty.Load():
		return 0
	}
	t.fail(t.recovery.repost(1))
	select {
	case <-t.verbs.ch.Ready():
		t.retrieve()
		return 0
	default:
	}
	if channels {
		t.notified()
	}
	if !full {
		any, err := t.recv.arrived(channels)
		if t.fail(err); any {
			return 0
		}
	}
	if t.closing.Load() || t.send.broken.Load() || t.send.pending() && t.send.advance(channels) {
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
		after = w.start(timeout)
		defer w.timer.Stop()
	}
	var comp, events <-chan struct{}
	if provider {
		comp, events = t.verbs.comp.Ready(), t.verbs.ch.Ready()
	}
	select {
	case <-w.token:
	case <-after:
	case <-comp:
		t.retrieveNotifications()
	case <-events:
		// Do what Poll does for the token just read.
		t.retrieve()
	}
}

// notified reads pending notifications, so that both queues know whether they are armed.
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
			t.recv.armed = false
			continue
		}
		t.send.notified()
	}
}

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.wait.wake() }

// WaitDescriptor implements transport.Pollable.
func (t *Transport) WaitDescriptor() int {
	if p := t.wait.pollable(); p != nil {
		return p.Descriptor()
	}
	return -1
}

// WaitFor implements transport.Pollable.
func (t *Transport) WaitFor(descriptor int) error {
	return named("wait for another", t.wait.pollable().WaitFor(descriptor))
}

// BeginWait implements transport.Pollable.
func (t *Transport) BeginWait(timeout time.Duration) time.Duration {
	t.recv.spinning = false
	if t.wait.pollable().Begin() {
		return 0
	}
	return t.before(timeout)
}

// EndWait implements transport.Pollable.
func (t *Transport) EndWait() { t.wait.pollable().End() }
