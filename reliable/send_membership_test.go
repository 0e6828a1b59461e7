package reliable

import (
	"testing"
	"time"
)

// The table lists the steps that change a membership, by state; all others change nothing.
func TestMembership(t *testing.T) {
	start := upTime(time.Hour)
	states := map[memberState]membership{
		memberFollows:  {},
		memberHolds:    {state: memberHolds, since: start},
		memberReleased: {state: memberReleased, held: 3 * time.Second},
	}
	now := start.add(5 * time.Second)
	steps := map[string]struct {
		do func(m *membership)
		to map[memberState]membership // resulting membership, if it changes
	}{
		"holds":   {func(m *membership) { m.holds(now) }, map[memberState]membership{memberFollows: {state: memberHolds, since: now}}},
		"follows": {func(m *membership) { m.follows() }, map[memberState]membership{memberHolds: {}}},
		"release": {func(m *membership) { m.release(now) }, map[memberState]membership{memberHolds: {state: memberReleased, held: 5 * time.Second}}},
		"returns": {func(m *membership) { m.returns() }, map[memberState]membership{memberReleased: {}}},
	}
	for name, step := range steps {
		for state, m := range states {
			want, changes := step.to[state]
			if !changes {
				want = m
			}
			if step.do(&m); m != want {
				t.Errorf("%s in state %d: %+v, want %+v", name, state, m, want)
			}
		}
	}
	for state, m := range states {
		held := map[memberState]time.Duration{memberHolds: 5 * time.Second, memberReleased: 3 * time.Second}[state]
		if m.waitedFor() != (state != memberReleased) || m.isHolding() != (state == memberHolds) || m.away() != (state == memberReleased) || m.heldFor(now) != held {
			t.Errorf("state %d: waited for %v, blocks %v, away %v, for %v", state, m.waitedFor(), m.isHolding(), m.away(), m.heldFor(now))
		}
	}
}
