package driver

import (
	"fmt"
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

	singly, waited int           // messages
	lag            time.Duration // of all messages, from when they were made until they left
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
			v.b.overdue(p, 1, 44, uint64(len(g.opened)), at.Sub(g.opened[0]))
			v.b.sending(at, false, false)
			v.sent(g, at)
		}
	}
}

func (v *virtual) sent(g *virtualGroup, at reliable.Instant) (end reliable.Instant) {
	for _, o := range g.opened {
		v.lag += at.Sub(o)
	}
	g.opened = g.opened[:0]
	v.b.took(at, at.Add(v.cost))
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
	v.waited++
	if len(g.opened) == 1 {
		v.b.opened(&g.p, v.now)
	}
}

// Who publishes on a schedule that leaves time for a send each has every message leave at once, round
// many groups as in one; who publishes as fast as it goes has them share trains; and who publishes more than can be sent
// one by one is not late.
func TestSpacing(t *testing.T) {
	const cost = 16 * time.Microsecond
	for _, c := range []struct {
		name        string
		every       time.Duration // messages are due; 0: one is begun when the last is published
		work        time.Duration // that a message takes
		least, most float64       // how many leave by themselves
	}{
		{"50,000 a second", 20 * time.Microsecond, 0, 0.95, 1},
		{"5,000 a second", 200 * time.Microsecond, 0, 0.95, 1},
		{"more than can be sent", 14 * time.Microsecond, 0, 0, 0.95},
		{"3 µs of work for each", 0, 3 * time.Microsecond, 0, 0.05},
		{"a tight loop", 0, 100 * time.Nanosecond, 0, 0.05},
		{"40 µs of work for each", 0, 40 * time.Microsecond, 0.95, 1},
	} {
		for _, groups := range []int{1, 2, 16} {
			t.Run(fmt.Sprintf("%s on %d", c.name, groups), func(t *testing.T) {
				v := newVirtual(groups, cost)
				run := func(n int) time.Duration {
					v.singly, v.waited, v.lag = 0, 0, 0
					began := v.now
					for range n {
						made := v.now
						if c.every > 0 {
							made = began.Add(time.Duration(v.singly+v.waited) * c.every)
							v.now = max(v.now, made)
						}
						v.now = v.now.Add(c.work)
						v.publish(made)
					}
					return v.now.Sub(began)
				}
				run(2000)
				const n = 20_000
				took := run(n)
				share := float64(v.singly) / n
				t.Logf("%.3f leave by themselves; %v a message; they wait %v", share, took/n, v.lag/n)
				if share < c.least || share > c.most {
					t.Errorf("%.2f of the messages leave by themselves, want %g to %g", share, c.least, c.most)
				}
				if c.every > 0 && (took > n*c.every*11/10 || v.lag/n > 50*time.Microsecond) {
					t.Errorf("%d messages took %v and waited for %v: the publisher is late", n, took, v.lag/n)
				}
			})
		}
	}
}

// What comes late in a burst, or as fast as it goes after a time with a schedule, does not leave message by message for long.
func TestSpacingBurst(t *testing.T) {
	const cost = 16 * time.Microsecond
	for _, groups := range []int{1, 16} {
		v := newVirtual(groups, cost)
		for range 2000 {
			v.now = v.now.Add(20 * time.Microsecond)
			v.publish(v.now)
		}
		v.singly = 0
		for range 100 {
			v.now = v.now.Add(100 * time.Nanosecond)
			v.publish(v.now)
		}
		if groups == 1 && v.singly > maxEarly+1 {
			t.Errorf("%d messages of a burst left by themselves, want %d at most", v.singly, maxEarly+1)
		}
		began := v.now
		for v.now.Sub(began) < 20*time.Millisecond {
			v.now = v.now.Add(3 * time.Microsecond)
			v.publish(v.now)
		}
		v.singly, v.waited = 0, 0
		for range 1000 {
			v.now = v.now.Add(3 * time.Microsecond)
			v.publish(v.now)
		}
		if v.singly > 500 {
			t.Errorf("%d of 1000 messages leave by themselves of a publisher that only sends hold up", v.singly)
		}
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
			v.singly, v.waited = 0, 0
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
