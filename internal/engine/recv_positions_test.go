package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// An instance counts as absent after the loop has run, with the group joined, for longer than the instance may be silent.
func TestInstanceAbsentByTimeThatRan(t *testing.T) {
	const turn = 100 * time.Millisecond
	for _, c := range []struct {
		name   string
		turns  int
		stops  time.Duration // after each
		joined bool
		absent bool
	}{
		{"runs", 100, 0, true, true},
		{"runs for less", 80, 0, true, false},
		{"group not joined", 100, 0, false, false},
		{"stopped for a minute each time", 40, time.Minute, true, false},
		{"delayed by half a second each time", 100, 500 * time.Millisecond, true, true},
	} {
		g := &group{l: &Loop{}, joined: c.joined}
		g.from.Positions = NewPositions()
		g.expected.absent = map[events.Instance]bool{{Publisher: 1, Epoch: 2}: true}
		runs, now := &g.l.watchdog.stand.runs, reliable.Instant(time.Hour)
		for range c.turns {
			runs.Runs(now)
			runs.Rests(g.tendExpected(now))
			now = now.Add(turn)
			runs.Runs(now)
			runs.Rests(g.tendExpected(now))
			now = now.Add(c.stops)
		}
		if absent := g.expected.absent == nil; absent != c.absent {
			t.Errorf("%s: absent %v, want %v", c.name, absent, c.absent)
		}
	}
}
