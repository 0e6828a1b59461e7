package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// docs/protocol §3.1.
func TestNewEpoch(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 123456789, time.UTC)
	seen := make(map[events.ID]bool)
	for _, c := range []struct {
		now    time.Time
		random uint64
	}{
		{at, 0},
		{at, 1 << 44},                          // another random number in the same tick
		{at, ^uint64(0)},                       //
		{at.Add(-time.Hour), 0},                // the clock was set back
		{at.Add(2 * time.Millisecond), 0},      // another tick
		{time.Unix(0, 0), 1 << 63},             // no clock
		{time.Unix(0, 0).Add(-time.Hour), 1e9}, // before the beginning
	} {
		e := newEpoch(c.now, c.random)
		if seen[e] {
			t.Errorf("%v, %#x: epoch %d was returned before, want a new one", c.now, c.random, e)
		}
		seen[e] = true
		if d := time.Duration(int64(e) - c.now.UnixNano()); d <= -2*time.Millisecond || d >= 2*time.Millisecond {
			t.Errorf("%v, %#x: the epoch differs from the clock by %v, want less than 2ms", c.now, c.random, d)
		}
	}
}
