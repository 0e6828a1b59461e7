//go:build !fanfare_plainudp

package udp

import (
	"time"

	"golang.org/x/sys/unix"
)

// markLink is the id of the watch of interfaces, beside group numbers and
// transport.Unicast.
const markLink = -4

// watchSocket has the loop hear of what comes at a socket. One that was not read
// empty is named again.
func (t *Transport) watchSocket(s *socket) error {
	return t.waiter.Poller.Add(s.fd, int32(s.group), unix.EPOLLIN)
}

// Wait implements transport.Transport. Its timeout is as exact as the kernel's
// timers and the scheduler: some 50 µs. Parked among goroutines that run on and on
// it may be 10 ms late, after which it does not park for a while.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.done.Load() {
		return errClosed
	}
	woken := t.waiter.Begin()
	defer t.waiter.End()
	if woken || timeout == 0 || t.closing.Load() || t.events.Pending() {
		return nil
	}
	// Ask epoll about all sockets: those that were ready may be empty by now.
	for _, s := range t.ready {
		s.ready = false
	}
	t.ready, t.polls = t.ready[:0], 0
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

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.waiter.Wake() }
