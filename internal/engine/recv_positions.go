package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Positions are where a subscription begins: the next message of each topic of each publisher instance. They do not
// change, and any goroutine may read them.
type Positions struct {
	of map[events.Instance]map[uint64]Position // by topic id
}

// Position is where a subscription begins a topic of one instance.
type Position struct {
	Topic string
	Group int    // group of the topic
	Next  uint64 // number of the first message to deliver
	// Gone says that the publisher is known to have ended, or to be lost, so its absence is not reported.
	Gone bool
}

// NewPositions returns no positions: each topic begins with message 0.
func NewPositions() *Positions { return &Positions{of: make(map[events.Instance]map[uint64]Position)} }

// Set adds a position.
func (p *Positions) Set(of events.Instance, x Position) {
	if p.of[of] == nil {
		p.of[of] = make(map[uint64]Position)
	}
	p.of[of][wire.TopicID(x.Topic)] = x
}

// next returns the number of the first message to deliver of a stream's topic.
func (p *Positions) next(of events.Instance, topic uint64) uint64 { return p.of[of][topic].Next }

// AbsentError reports that an instance with a known position was not detected. What it published on the topic from
// message Next on may be lost.
type AbsentError struct {
	events.Instance
	Position
	Events bool // an event follows if the instance comes up after all
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("publisher %s was not received: messages of topic %s from number %d on may be lost", e.Publisher, e.Topic, e.Next)
}

// expected are the instances with positions that were not detected yet. Loop only.
type expected struct {
	absent map[events.Instance]bool
	ran    time.Duration    // how long the group was joined while the loop ran
	at, up reliable.Instant // time of the last call of pass, and Loop.ran then
}

// pass counts the time up to now, of which the loop ran up. A standstill does not count, because the loop received
// nothing in it.
func (x *expected) pass(now, up reliable.Instant, joined bool) {
	if ran := up.Sub(x.up); joined && x.at > 0 && now.Sub(x.at)-ran < standstillAfter {
		x.ran += ran
	}
	x.at, x.up = now, up
}

// expect starts to wait for the instances that the group's subscription has positions of.
func (g *group) expect() {
	if g.from.Positions == nil {
		return
	}
	g.expected.absent = make(map[events.Instance]bool)
	for of, topics := range g.from.Positions.of {
		for _, x := range topics {
			if x.Group == g.index && !x.Gone {
				g.expected.absent[of] = true
			}
		}
	}
}

// tendExpected reports to the subscription the instances that have been silent for longer than a live one can be. It
// returns when to call it again.
func (g *group) tendExpected(now reliable.Instant) reliable.Instant {
	x := &g.expected
	if len(x.absent) == 0 {
		return reliable.Never
	}
	if x.pass(now, g.l.ran(now), g.joined); x.ran <= reliable.LongestSilence {
		return now.Add(time.Second)
	}
	for _, of := range slices.SortedFunc(maps.Keys(x.absent), func(a, b events.Instance) int {
		return cmp.Or(cmp.Compare(a.Publisher, b.Publisher), cmp.Compare(a.Epoch, b.Epoch))
	}) {
		topics := slices.SortedFunc(maps.Values(g.from.Positions.of[of]),
			func(a, b Position) int { return cmp.Compare(a.Topic, b.Topic) })
		for _, p := range topics {
			if p.Group == g.index && !p.Gone && g.isWanted(p.Topic) {
				g.owner.publisherAbsent(g.address, &AbsentError{of, p, g.owner.events})
			}
		}
	}
	x.absent = nil
	return reliable.Never
}

// isWanted reports whether a subscription has the topic, by name or by a pattern.
func (g *group) isWanted(topic string) bool {
	return g.topics[wire.TopicID(topic)] != nil || len(g.patterns.matching(topic)) > 0
}

// publisherAbsent reports an absent instance to the subscription. Loop only.
func (s *Subscription) publisherAbsent(group string, err *AbsentError) {
	t := &topics.Track{ID: wire.TopicID(err.Topic), Name: err.Topic}
	s.lost(&topics.Item{Topic: t, Number: err.Next, Unknown: true, Cause: events.CausePublisherLost},
		group, &reliable.Origin{Instance: err.Instance})
	if s.handler != nil {
		s.other(&Delivery{Err: err})
		return
	}
	s.mu.Lock()
	s.up.push(Delivery{Err: err})
	s.upSet.Store(true)
	s.mu.Unlock()
	s.wakeReader()
}
