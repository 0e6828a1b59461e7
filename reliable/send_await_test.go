package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// heartbeats lets time pass by the sender's deadlines and returns the times of heartbeats.
func (b *bench) heartbeats(until Instant) (at []Instant) {
	b.t.Helper()
	for b.s.Deadline() < until {
		b.now = max(b.now, b.s.Deadline())
		for range of(wire.TypeHeartbeat, b.next()) {
			at = append(at, b.now)
		}
	}
	b.now = until
	return at
}

// protocol §5.7: when a publisher begins to wait for subscribers the first heartbeat is sent at
// once, and later ones within a sixteenth of the waiting time; all together are a small load.
func TestAwaitSendsMoreHeartbeats(t *testing.T) {
	b := newBench(t, nil)
	b.heartbeats(b.now.Add(time.Second)) // the ladder is at its longest interval
	b.s.Await(b.now, 0)
	began := b.now
	if heartbeats := b.heartbeats(b.now + 1); len(heartbeats) != 1 {
		t.Fatalf("%d heartbeats at once, want 1", len(heartbeats))
	}
	heartbeats := b.heartbeats(began.Add(10 * time.Second))
	last := began
	for _, at := range heartbeats {
		if gap, most := at.Sub(last), min(slowHeartbeat, max(awaitHeartbeat, at.Sub(began)/awaitShare)); gap > most {
			t.Errorf("%v after the wait began, a heartbeat follows the previous one after %v, want at most %v", at.Sub(began), gap, most)
		}
		last = at
	}
	if n := len(heartbeats); n > 250 {
		t.Errorf("%d heartbeats in 10 s of waiting", n)
	}
	b.s.Await(b.now, 0) // a second wait, and the end of both
	b.s.Awaited()
	b.s.Awaited()
	b.heartbeats(b.now.Add(slowHeartbeat + 1))
	if heartbeats := b.heartbeats(b.now.Add(time.Second)); len(heartbeats) > 11 {
		t.Errorf("%d heartbeats a second after the wait", len(heartbeats))
	}
}

// A publisher that waits in 10,000 groups sends no more heartbeats than one that does not wait.
func TestAwaitInManyGroups(t *testing.T) {
	b := newBench(t, nil)
	b.heartbeats(b.now.Add(time.Second))
	b.s.Await(b.now, 10*time.Second)
	if heartbeats := b.heartbeats(b.now.Add(time.Second)); len(heartbeats) > 12 {
		t.Errorf("%d heartbeats a second in each group", len(heartbeats))
	}
}

// A publisher that waits for subscribers sends heartbeats even if data is expected. docs/protocol §5.7.
func TestAwaitWhileDataIsExpected(t *testing.T) {
	b := newBench(t, nil)
	x := b.topic("x")
	b.publish(1)
	b.next()
	b.s.Await(b.now, time.Millisecond)
	last, longest := b.now, time.Duration(0)
	for i := range 2000 {
		if i%20 == 0 {
			b.put(x, 10)
			b.s.Assign(b.now, b.w, true)
			b.s.Expect(b.now.Add(2 * time.Millisecond))
		}
		if len(of(wire.TypeHeartbeat, b.next())) > 0 {
			longest, last = max(longest, b.now.Sub(last)), b.now
		}
		b.now = b.now.Add(50 * time.Microsecond)
	}
	if longest > awaitHeartbeat {
		t.Errorf("heartbeats at intervals of up to %v, want %v", longest, awaitHeartbeat)
	}
}
