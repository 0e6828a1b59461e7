package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// docs/protocol §8.9.
func TestLagging(t *testing.T) {
	type step struct {
		at     time.Duration
		behind uint64
		held   time.Duration
		tooFar bool
	}
	for _, c := range []struct {
		name  string
		limit SlowLimit
		steps []step
	}{
		{"no limit", SlowLimit{}, []step{{0, 1 << 40, 0, false}, {time.Hour, 1 << 40, 0, false}}},
		{"at the limit", SlowLimit{100, time.Second}, []step{{0, 100, 0, false}, {time.Hour, 100, 0, false}}},
		{"beyond it", SlowLimit{100, time.Second}, []step{{0, 101, 0, false}, {999 * time.Millisecond, 5000, 0, false}, {time.Second, 101, 0, true}}},
		{"less behind in between", SlowLimit{100, time.Second}, []step{{0, 101, 0, false}, {500 * time.Millisecond, 100, 0, false}, {time.Second, 101, 0, false}, {1999 * time.Millisecond, 101, 0, false}, {2 * time.Second, 101, 0, true}}},
		{"at once", SlowLimit{100, 0}, []step{{0, 101, 0, true}}},
		{"blocks, no limit", SlowLimit{}, []step{{0, 42, time.Hour, false}}},
		{"blocks at less than the limit", SlowLimit{100, time.Second}, []step{{0, 42, 0, false}, {time.Second, 42, 999 * time.Millisecond, false}, {time.Second, 42, time.Second, true}}},
		{"blocks, and lets a packet through", SlowLimit{100, time.Second}, []step{{0, 42, 900 * time.Millisecond, false}, {time.Second, 42, 100 * time.Millisecond, false}}},
	} {
		var x lagging
		for i, s := range c.steps {
			if _, got := x.note(upTime(time.Minute).add(s.at), s.behind, s.held, c.limit); got != s.tooFar {
				t.Errorf("%s: step %d: %v", c.name, i, got)
			}
		}
	}
}

// A subscriber that is slow but never stops is released when it has been too far behind for too
// long, and counts again only when it is half as far behind. docs/protocol §8.9.
func TestSlowSubscriberIsReleased(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Slow, c.StallLimit = SlowLimit{8, 5 * time.Second}, time.Minute })
	got := uint64(0)
	b.status(1, 0, 12, 0)
	for range 12 {
		b.publish(1)
	}
	for i := range 4 { // a packet per second
		b.now = b.now.Add(time.Second)
		got++
		b.status(1, got, got+12, 0)
		b.publish(1)
		b.s.releaseHolders(b.now)
		if b.s.Stats().ReceiversReleased != 0 {
			t.Fatalf("released after %d s", i+1)
		}
	}
	b.now = b.now.Add(2 * time.Second)
	b.s.releaseHolders(b.now)
	g := taken(b.s, events.SlowSubscriber)
	if len(g) != 1 || g[0].Subscriber != 1 || g[0].Behind != 12 || g[0].For < 5*time.Second || b.s.Room() != noLimit-b.s.win.next {
		t.Fatalf("released: %+v; room for %d", g, b.s.Room())
	}
	for range 2 {
		b.publish(1)
	}
	for _, c := range []struct {
		next     uint64
		released bool
	}{{5, true}, {13, true}, {14, false}} { // of 18
		b.status(1, c.next, c.next+12, 0)
		if m := b.s.Members(b.now, 0); len(m) != 1 || m[0].Released != c.released {
			t.Errorf("at %d: %+v", c.next, m)
		}
	}
}

// One that is silent blocks the publisher at fewer packets than the limit, because windows are
// small: it is released all the same. One that lets a packet through is not. docs/protocol §8.9.
func TestHolderIsReleasedAsSlow(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Slow, c.StallLimit = SlowLimit{100, 5 * time.Second}, time.Minute })
	b.status(1, 0, 12, 0)
	held := func() {
		t.Helper()
		if _, r := b.assign(20); r != events.ReasonFlow {
			t.Fatalf("the publisher is not blocked: %v", r)
		}
		b.next()
		b.s.releaseHolders(b.now)
	}
	held()
	for got := uint64(1); got < 5; got++ {
		b.now = b.now.Add(4 * time.Second)
		b.s.releaseHolders(b.now)
		b.status(1, got, got+12, 0)
		held()
	}
	b.now = b.now.Add(4 * time.Second)
	b.s.releaseHolders(b.now)
	if g := taken(b.s, events.SlowSubscriber); len(g) > 0 {
		t.Fatalf("released although it lets a packet through every 4 s: %+v", g)
	}
	b.now = b.now.Add(time.Second)
	b.s.releaseHolders(b.now)
	g := taken(b.s, events.SlowSubscriber)
	if len(g) != 1 || g[0].Behind > 100 || g[0].For < 5*time.Second || g[0].For > 6*time.Second {
		t.Fatalf("released: %+v", g)
	}
}
