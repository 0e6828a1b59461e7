package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// A missing packet counts as dropped by this host if a drop explains it, and as lost in the network otherwise.
func TestNetworkLosses(t *testing.T) {
	type step struct {
		dropped, settled uint64 // up to now
		missing          bool
		fabric           uint64 // up to now
	}
	for _, c := range []struct {
		name  string
		train uint64
		steps []step
	}{
		{"nothing", 1, []step{{0, 0, false, 0}}},
		{"in the network", 1, []step{{0, 3, false, 3}, {0, 4, false, 4}}},
		{"by the socket", 1, []step{{3, 3, false, 0}, {5, 5, false, 0}}},
		{"by both at once", 1, []step{{3, 5, false, 2}}},
		{"repaired one by one", 1, []step{{3, 1, true, 0}, {3, 2, true, 0}, {3, 3, false, 0}, {3, 4, false, 1}}},
		{"drops of packets that are not missing", 1, []step{{9, 0, false, 0}, {9, 0, false, 0}, {9, 4, false, 4}}},
		{"missing a second later", 1, []step{{1, 0, false, 0}, {1, 1, false, 0}, {1, 2, false, 1}}},
		{"missing while others are repaired", 1, []step{{1, 0, true, 0}, {2, 1, false, 0}, {2, 2, false, 0}}},
		{"drops while other packets are missing", 1, []step{{2, 1, true, 0}, {4, 3, true, 0}, {4, 5, false, 1}}},
		{"a train that is counted once", 44, []step{{1, 40, true, 0}, {1, 44, true, 0}, {1, 45, false, 1}}},
	} {
		var x networkLosses
		for i, s := range c.steps {
			x.now = s.settled
			x.note(reliable.Instant(i)*reliable.Instant(time.Second), s.dropped, c.train, 0, s.missing)
			if n := x.fabric.Load(); n != s.fabric {
				t.Errorf("%s, step %d: %d packets lost in the network, want %d", c.name, i, n, s.fabric)
			}
		}
	}
	var q networkLosses // of an adapter that counts no drops
	for i, s := range []struct {
		full, settled uint64
		missing       bool
		queue, fabric uint64
	}{
		{0, 2, false, 0, 2}, {1, 2, true, 0, 2}, {1, 5, true, 3, 2}, {1, 9, false, 7, 2}, {1, 10, false, 7, 3}, {2, 10, false, 7, 3}, {2, 10, false, 7, 3}, {2, 11, false, 7, 4},
	} {
		q.now = s.settled
		q.note(reliable.Instant(i)*reliable.Instant(time.Second), 0, 1, s.full, s.missing)
		if n, f := q.queue.Load(), q.fabric.Load(); n != s.queue || f != s.fabric {
			t.Errorf("full queue, step %d: %d packets lost by the queue and %d in the network, want %d and %d", i, n, f, s.queue, s.fabric)
		}
	}
	last := networkLosses{lookAt: reliable.Instant(time.Second)} // of three drops, the last is found after the others are settled
	for i, settled := range []uint64{1, 2, 3} {
		last.now = settled
		if last.note(reliable.Instant(i)*reliable.Instant(time.Millisecond), 3, 1, 0, i == 0); last.fabric.Load() != 0 {
			t.Errorf("%d packets lost in the network after %d of three drops, want 0", last.fabric.Load(), settled)
		}
	}
	x := networkLosses{lookAt: reliable.Instant(time.Second)}
	if x.due(0) {
		t.Error("due returned true without losses, want false")
	}
	if x.now = 1; !x.due(0) {
		t.Error("due returned false after a loss, want true")
	}
	if x.now = 0; !x.due(reliable.Instant(time.Second)) {
		t.Error("due returned false after a second, want true")
	}
}
