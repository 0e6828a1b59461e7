package sim

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Publishers that ask for the subscribers of their topics. The invariants, checked from outside of both: a member
// that is counted for a topic wants it; an answer that is complete leaves out no member that has always wanted it;
// and in the end those are counted that are there, and no others. docs/protocol §7.10.

// questions lets some publishers ask.
func (d drawer) questions(o *Options) {
	for i := range o.Publishers {
		if d.chance(20) {
			o.Publishers[i].Asks = d.time(100*time.Microsecond, o.Faults)
		}
	}
}

// ask asks for a topic, now and then.
func (p *publisher) ask() {
	if p.alive() && p.frozen == 0 {
		p.answer(p.sim.net.rng.IntN(len(p.topics)))
		p.pump()
	}
	p.sim.at(max(p.o.Asks, time.Duration(p.sim.now)/16), p.ask)
}

// answer asks for topic number i. It returns the members that are counted, and reports whether others may want it.
func (p *publisher) answer(i int) (members []stats.Subscriber, open bool) {
	id := p.topics[i].ID
	known, open := p.s.Ask(p.now(), id)
	members = p.s.Members(p.now(), id)
	if open {
		return members, open
	}
	if known != len(members) {
		p.sim.fail("publisher %d: %d subscribers are known to want topic %d, and %d are listed", p.index, known, i, len(members))
	}
	for _, m := range p.s.Members(p.now(), 0) { // an answer may be older than a pattern
		if w := p.sim.stays[m.ID]; w != nil && w.always(i) && !has(members, m.ID) {
			p.sim.fail("publisher %d: all have answered for topic %d, and subscriber %#x is not counted, which wants it", p.index, i, m.ID)
		}
	}
	return members, false
}

func has(members []stats.Subscriber, id uint64) bool {
	return slices.ContainsFunc(members, func(m stats.Subscriber) bool { return m.ID == id })
}

// checkCounted checks that all members that are counted want the topic, in the stay with their id.
func (p *publisher) checkCounted() {
	if p.o.Asks == 0 {
		return
	}
	for i, t := range p.topics {
		for _, m := range p.s.Members(p.now(), t.ID) {
			if w := p.sim.stays[m.ID]; w == nil || !w.topic(i) {
				p.sim.fail("publisher %d: subscriber %#x is counted for topic %d, which it does not want", p.index, m.ID, i)
			}
		}
	}
}

// unanswered asks for all topics. It returns the number of one of which the answer is open, or counts others than those
// that want the topic and hear the publisher; -1: there is none.
func (p *publisher) unanswered() int {
	if p.o.Asks == 0 {
		return -1
	}
	topic := -1
	for i := range p.topics {
		members, open := p.answer(i)
		want := 0
		for _, x := range p.sim.subscribers {
			if x.present() && x.hears(p) && x.topic(i) {
				want++
				open = open || !has(members, x.id)
			}
		}
		if open || len(members) != want {
			topic = i
		}
	}
	p.pump()
	return topic
}

// hears reports whether the subscriber has the publisher's stream, and so is a member. It has not where it is of
// the same process or has no room for the stream; where a forged packet has begun it, its statuses are beyond all
// that was sent, and are refused.
func (s *subscriber) hears(p *publisher) bool {
	return slices.ContainsFunc(s.r.Streams(), func(st *reliable.Stream) bool {
		return outputOf(st).t == p.t && !st.Down() && !st.Ended()
	})
}
