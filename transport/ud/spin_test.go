package ud_test

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// Only while the loop polls without finding anything and without waiting, the provider spins for a bounded time.
func TestProviderSpins(t *testing.T) {
	r := newRig(t, fabric.Config{})
	s := newSpy(r.f)
	s.waiter = &deafWaiter{}
	n, other := r.node(ud.Config{Provider: s}), r.node(ud.Config{})
	r.join(n, 0)
	to := r.sender(other, 0)
	spins := func(what string, want int) {
		t.Helper()
		if len(s.spins) != want {
			t.Errorf("%s: the provider spun %d times, want %d", what, len(s.spins), want)
		}
		for _, d := range s.spins {
			if d <= 0 || d > 20*time.Microsecond {
				t.Errorf("%s: spinning may last %v, want more than 0 and at most 20 µs", what, d)
			}
		}
		s.spins = nil
	}
	pass := func() { r.f.AdvanceTo(r.f.Now() + time.Millisecond) }
	wait := func() {
		t.Helper()
		if err := n.Wait(time.Nanosecond); err != nil {
			t.Fatal(err)
		}
	}

	wait()
	s.spins = nil
	for range 3 {
		n.poll()
		wait()
	}
	spins("a loop that waits", 0)
	for range 4 {
		n.poll()
	}
	spins("four polls", 3)
	r.send(to, "x")
	pass()
	n.poll()
	spins("one more poll", 1)
	if len(n.got) != 1 {
		t.Errorf("packets %q arrived, want 1", n.got)
	}
	n.poll()
	spins("a poll after one that found something", 0)
	n.poll()
	spins("a poll after one that found nothing", 1)
	if err := n.Join(1); err != nil {
		t.Fatal(err)
	}
	for len(n.events) == 0 {
		s.spins = nil
		pass()
		n.poll()
	}
	spins("a poll with a pending event", 0)
}
