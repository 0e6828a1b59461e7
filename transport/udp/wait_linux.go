//go:build !fanfare_plainudp

package udp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

// markLink is the epoll id of the watch of interfaces, distinct from group numbers and transport.Unicast.
const markLink = -4

// markOther is the epoll id of descriptors of WaitFor.
const markOther = -5

// watchSocket adds a socket to the loop's epoll, level-triggered.
func (t *Transport) watchSocket(s *socket) error {
	return t.waiter.Poller.Add(s.fd, int32(s.group), unix.EPOLLIN)
}

// Wait implements transport.Transport. The precision of its timeout is that of the kernel's timers and the scheduler:
// about 50 µs. If it parks while other goroutines never yield it may be 10 ms late; after that it does not park for a
// while.
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
		if t.markReady(evs); crowded {
			t.flood.crowd()
		}
	} else {
		t.markReady(t.waiter.Sleep(timeout))
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
	// Let epoll check all sockets: the ready ones may be empty by now.
	for _, s := range t.ready {
		s.ready = false
	}
	t.ready, t.polls = t.ready[:0], 0
	t.round.drop()
	t.readDrops(time.Now())
	return t.untilCheck(timeout)
}

// dropInterval is how often the drop counters of sockets are read: without further packets of a group no packet reports
// its count.
const dropInterval = time.Second

// readDrops reads the drop counters of all sockets, if dropInterval has passed. Loop only.
func (t *Transport) readDrops(now time.Time) {
	if now.Sub(t.dropsReadAt) < dropInterval {
		return
	}
	t.dropsReadAt = now
	for _, s := range t.groups {
		t.readSocketDrops(s)
	}
	t.readSocketDrops(t.unicast)
}

func (t *Transport) readSocketDrops(s *socket) {
	if s != nil && s.fd >= 0 {
		if n := s.drops.Read(s.fd); n > 0 {
			t.dropped(s, n)
		}
	}
}

// dropped records that a socket has dropped datagrams.
func (t *Transport) dropped(s *socket, n uint64) {
	t.repliesLost = t.repliesLost || s.group == transport.Unicast
	t.received.Overflow.Add(n)
}

// EndWait implements transport.Pollable.
func (t *Transport) EndWait() { t.waiter.End() }

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.waiter.Wake() }
