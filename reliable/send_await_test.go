package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// beats lets time pass by the sender's own deadlines and returns when heartbeats went.
func (b *bench) beats(until Instant) (at []Instant) {
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

// protocol.md §5.7: for who waits for subscribers the first heartbeat goes at once, and
// later ones within a sixteenth of the time waited; together they are no load.
func TestAwaitHastensHeartbeats(t *testing.T) {
	b := newBench(t, nil)
	b.beats(b.now.Add(time.Second)) // the ladder is at its top
	b.s.Await(b.now, 0)
	began := b.now
	if beats := b.beats(b.now + 1); len(beats) != 1 {
		t.Fatalf("%d heartbeats at once, want 1", len(beats))
	}
	beats := b.beats(began.Add(10 * time.Second))
	last := began
	for _, at := range beats {
		if gap, most := at.Sub(last), min(slowBeat, max(awaitBeat, at.Sub(began)/awaitShare)); gap > most {
			t.Errorf("a heartbeat %v after the wait began follows %v behind the last one, want %v at most", at.Sub(began), gap, most)
		}
		last = at
	}
	if n := len(beats); n > 250 {
		t.Errorf("%d heartbeats in 10 s of waiting", n)
	}
	b.s.Await(b.now, 0) // a second one, and both end
	b.s.Awaited()
	b.s.Awaited()
	b.beats(b.now.Add(slowBeat + 1))
	if beats := b.beats(b.now.Add(time.Second)); len(beats) > 11 {
		t.Errorf("%d heartbeats a second when nobody waits any more", len(beats))
	}
}

// A publisher that waits in 10,000 groups sends as many heartbeats as one that does not
// wait.
func TestAwaitInManyGroups(t *testing.T) {
	b := newBench(t, nil)
	b.beats(b.now.Add(time.Second))
	b.s.Await(b.now, 10*time.Second)
	if beats := b.beats(b.now.Add(time.Second)); len(beats) > 12 {
		t.Errorf("%d heartbeats a second and group", len(beats))
	}
}
