package shm

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Wait implements transport.Transport.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.done.Load() {
		return errClosed
	}
	if sleep := t.BeginWait(timeout); sleep != 0 {
		t.waiter.Sleep(sleep)
	}
	t.EndWait()
	return nil
}

// WaitDescriptor implements transport.Pollable.
func (t *Transport) WaitDescriptor() int { return t.waiter.Poller.Descriptor() }

// WaitFor implements transport.Pollable.
func (t *Transport) WaitFor(descriptor int) error {
	return t.waiter.Poller.Add(descriptor, markOther, unix.EPOLLIN)
}

// BeginWait implements transport.Pollable.
func (t *Transport) BeginWait(timeout time.Duration) time.Duration {
	if woken := t.waiter.Begin(); woken || timeout == 0 || t.closing.Load() || t.events.Pending() {
		return 0
	}
	// A sender reads this after it has put its train into the lane, so either it sees the flag or this endpoint sees the
	// train.
	t.asleep.Store(t.asleep.Load() + 1)
	t.slept = true
	if t.news() || t.anyWaits() {
		return 0
	}
	return t.discoverable.bound(t.untilAgain(timeout))
}

// anyWaits reports whether a train of any peer is waiting.
func (t *Transport) anyWaits() bool {
	t.fetching.Lock()
	defer t.fetching.Unlock()
	return slices.ContainsFunc(*t.known.Load(), t.waits)
}

// EndWait implements transport.Pollable.
func (t *Transport) EndWait() {
	if t.slept {
		t.slept, t.discoverable.slept = false, true
		t.asleep.Store(t.asleep.Load() + 1)
		t.own.drainBell()
	}
	t.waiter.End()
}

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.waiter.Wake() }
