package sim

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Publishers that query the subscribers of their topics. The checker verifies: a member that counts
// for a topic wants it; a complete answer includes every member that wanted it all the time; at the
// end exactly the present subscribers count. docs/protocol §7.10.

// queries lets some publishers query subscribers.
func (d drawer) queries(o *Options) {
	for i := range o.Publishers {
		if d.chance(20) {
			o.Publishers[i].Queries = d.time(100*time.Microsecond, o.Faults)
		}
	}
}

// query queries the subscribers of a random topic at intervals.
func (p *publisher) query() {
	if p.alive() && p.frozen == 0 {
		p.answer(p.sim.net.rng.IntN(len(p.topics)))
		p.wakes()
	}
	p.sim.at(max(p.o.Queries, time.Duration(p.sim.now)/16), p.query)
}

// answer queries topic number i. It returns the members that count, and reports whether others may want it.
func (p *publisher) answer(i int) (members []stats.Subscriber, open bool) {
	id := p.topics[i].ID
	known := 0
	p.pub.Look(func(_ *reliable.Sender, m *topics.Sender) {
		known, open = m.Ask(p.Now(), id)
		members = m.Members(p.Now(), id)
	})
	if open {
		return members, open
	}
	if known != len(members) {
		p.sim.fail("publisher %d: %d subscribers are counted for topic %d, but %d are listed", p.index, known, i, len(members))
	}
	for _, m := range p.members(0) { // a member may have answered before it added a pattern
		id := uint64(m.ID)
		if w := p.sim.stays[id]; w != nil && w.always(i) && !p.sim.unread[id] && !containsMember(members, id) {
			p.sim.fail("publisher %d: the answer for topic %d is complete, but lacks subscriber %#x, which wants it", p.index, i, m.ID)
		}
	}
	return members, false
}

func containsMember(members []stats.Subscriber, id uint64) bool {
	return slices.ContainsFunc(members, func(m stats.Subscriber) bool { return uint64(m.ID) == id })
}

// checkCounted checks that all counted members want the topic, in the stay with their id.
func (p *publisher) checkCounted() {
	if p.o.Queries == 0 {
		return
	}
	for i, t := range p.topics {
		for _, m := range p.members(t.ID) {
			if w := p.sim.stays[uint64(m.ID)]; w == nil || !w.topic(i) && !p.sim.unread[uint64(m.ID)] {
				p.sim.fail("publisher %d: subscriber %#x counts for topic %d, which it does not want", p.index, m.ID, i)
			}
		}
	}
}

// unanswered queries all topics. It returns the number of one with an incomplete or wrong answer; -1: none.
func (p *publisher) unanswered() int {
	if p.o.Queries == 0 {
		return -1
	}
	topic := -1
	for i := range p.topics {
		members, open := p.answer(i)
		want := 0
		for _, x := range p.sim.subscribers {
			for _, id := range x.receiving(p) {
				if x.topic(i) {
					want++
					open = open || !containsMember(members, id)
				}
			}
		}
		if open || len(members) != want {
			topic = i
		}
	}
	p.wakes()
	return topic
}

// receiving returns the receivers that have the publisher's stream, and so are members. A subscriber has none if it is
// in the same process or has no room for the stream, or if a forged packet began the stream: then its statuses are
// ahead of all data, and are refused.
func (s *subscriber) receiving(p *publisher) (ids []uint64) {
	for _, x := range s.streams {
		if s.present() && x.t == p.t && x.up() && s.reads(x) {
			ids = append(ids, x.id)
		}
	}
	return ids
}

// reads reports whether a reader that was not evicted reads the stream.
func (s *subscriber) reads(x *stream) bool {
	return slices.ContainsFunc(s.readers, func(r *reader) bool {
		return !r.ended && slices.ContainsFunc(r.feeds, func(f *feed) bool { return f.x == x })
	})
}
