package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// virtual is a publisher of single messages on groups in turn, in virtual time, with a loop that
// sends what it leaves open.
type virtual struct {
	b      *batcher
	now    reliable.Instant
	cost   time.Duration // of a send
	groups []virtualGroup
	turn   int

	singly int // messages that left by themselves
}

type virtualGroup struct {
	p      Publication
	opened []reliable.Instant // of what waits
}

func newVirtual(groups int, cost time.Duration) *virtual {
	v := &virtual{b: batcherAt(aMinute, cost), now: aMinute, cost: cost, groups: make([]virtualGroup, groups)}
	v.b.idle = aMinute.Add(-time.Second)
	return v
}

// overdue has the loop send what has waited long enough, beside the publisher.
func (v *virtual) overdue() {
	for p := v.b.next(v.now); p != nil; p = v.b.next(v.now) {
		for i := range v.groups {
			g := &v.groups[i]
			if p != &g.p || len(g.opened) == 0 {
				continue
			}
			at := min(v.now, g.opened[0].Add(v.b.linger()))
			v.b.overdue(1, 44)
			v.b.sending(at, false, false)
			v.sent(g, at)
		}
	}
}

func (v *virtual) sent(g *virtualGroup, at reliable.Instant) (end reliable.Instant) {
	g.opened = g.opened[:0]
	v.b.took(at, at.Add(v.cost), true)
	return at.Add(v.cost)
}

// publish publishes a message that was made at a time, now or before.
func (v *virtual) publish(made reliable.Instant) {
	v.overdue()
	g := &v.groups[v.turn%len(v.groups)]
	v.turn++
	g.opened = append(g.opened, made)
	if v.b.leaves(v.now, &g.p, 1, 64, len(g.opened) == 1, nobody) {
		v.b.sending(v.now, true, false)
		v.singly++
		v.now = v.sent(g, v.now)
		return
	}
	if len(g.opened) == 1 {
		v.b.opened(&g.p, v.now)
	}
}

// A tight loop that is held up for a moment now and then goes on with its train; who stops after one, and
// publishes single messages, has them leave at once.
func TestSpacingHiccups(t *testing.T) {
	const cost = time.Microsecond
	for _, groups := range []int{1, 16} {
		v := newVirtual(groups, cost)
		loop := func(n int) {
			for i := range n {
				if v.now = v.now.Add(30 * time.Nanosecond); i%300 == 0 {
					v.now = v.now.Add(3 * time.Microsecond)
				}
				v.publish(v.now)
			}
		}
		loop(10_000)
		v.singly = 0
		if loop(30_000); v.singly > 10 {
			t.Errorf("%d groups: %d messages left by themselves, of 100 behind a hiccup", groups, v.singly)
		}
		for _, pause := range []time.Duration{time.Millisecond, 30 * time.Microsecond} {
			v.singly = 0
			for range 1000 {
				v.now = v.now.Add(pause)
				v.publish(v.now)
			}
			if v.singly < 980 {
				t.Errorf("%d groups: %d of 1000 messages %v apart left at once", groups, v.singly, pause)
			}
		}
	}
}
