package sim

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Subscribers that also list topics: the list must be correct, and no publisher may count it as a
// subscriber. docs/protocol §9.10.

// lists lets some subscribers list topics.
func (d drawer) lists(o *Options) {
	for i := range o.Subscribers {
		o.Subscribers[i].Lists = d.chance(20)
	}
}

// beginList begins the list of a subscriber that has one.
func (s *subscriber) beginList(own events.Instance) {
	if s.lister = nil; !s.o.Lists {
		return
	}
	cfg := reliable.ReceiverConfig{
		ID: s.id ^ 2, GroupTag: s.legTags()[0], LegTags: s.legTags(),
		Own: own, Checksum: s.sim.o.Checksum, MaxStreams: defaultStreams,
	}
	s.lister = topics.NewLister(cfg, s.unpacker(), s, topics.NewListBudget())
}

// list passes a packet to the list.
func (s *subscriber) list(now reliable.Instant, from uint64, b []byte) {
	if s.lister == nil {
		return
	}
	s.lister.Handle(now, from, b)
	for {
		peer, p, ok := s.lister.Next(nil)
		if !ok {
			return
		}
		s.send(peer, p)
	}
}

// endList checks the list.
func (s *subscriber) endList() {
	if s.lister == nil {
		return
	}
	for _, p := range s.sim.publishers {
		if p.alive() && slices.ContainsFunc(p.members(0),
			func(m stats.Subscriber) bool { return uint64(m.ID) == s.id^2 }) {
			s.sim.fail("publisher %d counts the list of subscriber %d as a subscriber", p.index, s.number)
		}
	}
	for _, x := range s.lister.Streams() {
		s.checkListed(x)
	}
	s.lister.Close()
}

// checkListed checks the list of a stream against what its publisher has sent.
func (s *subscriber) checkListed(x *topics.Listed) {
	t := s.sim.truth(x.Instance)
	switch {
	case s.sim.o.forged() || s.sim.o.Trust != nil && t == nil:
		return // an attacker forges publishers, names and numbers; an insider is a publisher itself
	case t == nil:
		s.sim.fail("subscriber %d lists publisher %v.%d, which does not exist", s.number, x.Publisher, x.Epoch)
		return
	}
	named := 0
	x.Topics(func(topic *topics.ListedTopic) {
		i := t.topic(topic.ID)
		if i < 0 || topic.Name != "" && topic.Name != topicNames[i] {
			s.sim.fail("subscriber %d lists topic %#x as %q", s.number, topic.ID, topic.Name)
			return
		}
		if n := t.assigned(i); topic.First > topic.Next || topic.Next > n {
			s.sim.fail("subscriber %d lists messages %d to %d of topic %s, which has %d", s.number, topic.First, topic.Next, topicNames[i], n)
		}
		if topic.Name != "" {
			named++
		}
	})
	if x.Complete() {
		s.sim.report.Listed++
		if named < len(t.topics) {
			s.sim.fail("subscriber %d lists %d topics of publisher %v.%d as complete, but it has %d", s.number, named, x.Publisher, x.Epoch, len(t.topics))
		}
	}
}

// assigned returns how many messages of a topic were sent, or may already have a number.
func (t *truth) assigned(topic int) uint64 {
	n := len(t.topics[topic].sent)
	for w, list := range t.written {
		for _, m := range list[t.pops[w]:] {
			if m.topic == topic {
				n++
			}
		}
	}
	return uint64(n)
}
