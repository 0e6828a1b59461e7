//go:build !fanfare_plainudp

package udp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

// markLink is the id of the watch of interfaces, distinct from group numbers and transport.Unicast.
const markLink = -4

// markOther is that of what WaitFor watches.
const markOther = -5

// watchSocket adds a socket to the loop's epoll. A socket that was not read empty is reported again.
func (t *Transport) watchSocket(s *socket) error {
	return t.waiter.Poller.Add(s.fd, int32(s.group), unix.EPOLLIN)
}

// Wait implements transport.Transport. Its timeout is as exact as the kernel's timers and the scheduler: some 50 µs.
// Parked among goroutines that run on and on it may be 10 ms late, after which it does not park for a while.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.done.Load() {
		return errClosed
	}
	defer t.EndWait()
	if timeout = t.BeginWait(timeout); timeout == 0 {
		return nil
	}
	start := time.Now()
	if t.flood.wait() {
		evs, crowded := t.waiter.Park(timeout)
		if t.harvest(evs); crowded {
			t.flood.crowd()
		}
	} else {
		t.harvest(t.waiter.Sleep(timeout))
	}
	if time.Since(start) >= asleep {
		t.flood.slept()
	}
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
	// Ask epoll about all sockets: those that were ready may be empty by now.
	for _, s := range t.ready {
		s.ready = false
	}
	t.ready, t.polls = t.ready[:0], 0
	t.round.drop()
	t.askForDrops(time.Now())
	return t.untilCheck(timeout)
}

// askEvery is how often sockets are asked for their drops: a group without further packets has none to carry the count.
const askEvery = time.Second

// askForDrops asks all sockets, if it is long since they were. Loop only.
func (t *Transport) askForDrops(now time.Time) {
	if now.Sub(t.askedAt) < askEvery {
		return
	}
	t.askedAt = now
	for _, s := range t.groups {
		t.askSocket(s)
	}
	t.askSocket(t.unicast)
}

func (t *Transport) askSocket(s *socket) {
	if s != nil && s.fd >= 0 {
		if n := s.drops.Ask(s.fd); n > 0 {
			t.dropped(s, n)
		}
	}
}

// dropped notes that a socket has dropped datagrams.
func (t *Transport) dropped(s *socket, n uint64) {
	t.repliesLost = t.repliesLost || s.group == transport.Unicast
	t.received.Overflow.Add(n)
}

// EndWait implements transport.Pollable.
func (t *Transport) EndWait() { t.waiter.End() }

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.waiter.Wake() }
