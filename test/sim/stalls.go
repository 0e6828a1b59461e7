package sim

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Readers that stop, and publishers that release them.

// heldSlack is how much longer than its limit a publisher may be blocked: the intervals of
// heartbeats, with which it polls, and the round trip to a subscriber that joins meanwhile.
const heldSlack = 300 * time.Millisecond

// checkHeld checks that no subscriber blocks the publisher for longer than its limit: while flow
// control blocks written messages it sends nothing new.
func (p *publisher) checkHeld() {
	limit := p.o.StallLimit
	if limit == 0 {
		return
	}
	held := slices.ContainsFunc(p.writers, func(w *writer) bool { return w.blocked })
	p.look(func(s *reliable.Sender) { held = held && s.Blocked() == events.ReasonFlow })
	if !held || p.t.next != p.heldAt {
		p.heldSince, p.heldAt = p.sim.now, p.t.next
		return
	}
	if d := p.sim.now.Sub(p.heldSince); d > limit+heldSlack {
		p.sim.fail("publisher %d: blocked at packet %d for %v, the limit is %v", p.index, p.t.next, d, limit)
	}
}

// event records which subscribers were given up, which were released, and which count again.
func (p *publisher) event(e events.Event) {
	m, x, slow := p.t.members[uint64(e.Subscriber)], p.o.Slow, e.Kind == events.SlowSubscriber
	if e.Kind == events.SubscriberSilent {
		p.sim.silent(p, uint64(e.Subscriber))
	}
	if !slow && e.Kind != events.SubscriberReleased {
		return
	}
	p.sim.trace("publisher %d releases subscriber %v after %v", p.index, e.Subscriber, e.For)
	p.sim.report.Released++
	// A subscriber that blocks the publisher is as far behind as possible: no new packet fits its window.
	var held time.Duration
	if m != nil {
		held = p.sim.now.Sub(m.admitted)
		m.released, m.wasReleased = true, true
		p.released++
	}
	lasted := e.For + time.Millisecond // events state milliseconds
	tooSoon := x.Behind == 0 || lasted < x.For || e.Behind <= x.Behind && held < x.For
	if slow && tooSoon || !slow && lasted < p.o.StallLimit {
		p.sim.fail("publisher %d: subscriber %v was released when it was %d packets behind after %v, the limits are %+v and %v", p.index, e.Subscriber, e.Behind, e.For, x, p.o.StallLimit)
	}
}

// checkReleased records which released subscribers count again.
func (p *publisher) checkReleased() {
	if p.released == 0 {
		return
	}
	p.released = 0
	for _, m := range p.members(0) {
		if x := p.t.members[uint64(m.ID)]; x != nil {
			if x.released = m.Released; x.released {
				p.released++
			}
		}
	}
}
