package sim

import (
	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/pattern"
)

// Subscribers that also list topics: the list must be correct. docs/protocol §9.10.

// lists lets some subscribers list topics.
func (d drawer) lists(o *Options) {
	for i := range o.Subscribers {
		o.Subscribers[i].Lists = d.chance(20)
	}
}

// endList checks the list.
func (s *subscriber) endList() {
	if s.survey == nil {
		return
	}
	all, err := pattern.Parse(">")
	if err != nil {
		s.sim.fail("%v", err)
	}
	for _, x := range s.survey.Look([]pattern.Pattern{all}).Streams {
		s.checkListed(&x)
	}
}

// checkListed checks the list of a stream against what its publisher has sent.
func (s *subscriber) checkListed(x *engine.SurveyedStream) {
	t := s.sim.truth(x.Instance)
	switch {
	case s.sim.o.forged() || s.sim.o.Trust != nil && t == nil:
		return // an attacker forges publishers, names and numbers; an insider is a publisher itself
	case t == nil:
		s.sim.fail("subscriber %d lists publisher %v.%d, which does not exist", s.number, x.Publisher, x.Epoch)
		return
	}
	for _, topic := range x.Topics {
		i := t.topic(topic.ID)
		if i < 0 || topic.Name != topicNames[i] {
			s.sim.fail("subscriber %d lists topic %#x as %q", s.number, topic.ID, topic.Name)
			return
		}
		if n := t.assigned(i); topic.First > topic.Next || topic.Next > n {
			s.sim.fail("subscriber %d lists messages %d to %d of topic %s, which has %d", s.number, topic.First, topic.Next, topicNames[i], n)
		}
	}
	if x.Complete {
		s.sim.report.Listed++
		if named := len(x.Topics); named < len(t.topics) {
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
