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

// Positions are where a subscription begins: of each instance of a publisher, and each of its
// topics, the message that is wanted next. They do not change, and any goroutine may read them.
type Positions struct {
	of map[reliable.Instance]map[uint64]Position // by topic id
}

// Position is where a subscription begins a topic of one instance.
type Position struct {
	Topic string
	Group int    // that the topic maps to
	Next  uint64 // number of the message that is wanted next
	// Gone says that it is known that the publisher has ended, or was lost: that it is not heard is nothing new.
	Gone bool
}

// NewPositions returns no positions: each topic begins with message 0.
func NewPositions() *Positions {
	return &Positions{of: make(map[reliable.Instance]map[uint64]Position)}
}

// Set adds a position.
func (p *Positions) Set(of reliable.Instance, x Position) {
	if p.of[of] == nil {
		p.of[of] = make(map[uint64]Position)
	}
	p.of[of][wire.TopicID(x.Topic)] = x
}

// next is the number of the first message of a stream's topic that is wanted.
func (p *Positions) next(publisher, epoch, topic uint64) uint64 {
	return p.of[reliable.Instance{Publisher: publisher, Epoch: epoch}][topic].Next
}

// AbsentError says that an instance is not heard of which a position is known: what it
// published of the topic from message Next on may be lost.
type AbsentError struct {
	reliable.Instance
	Position
	Events bool // the subscription gets an event when the instance comes up after all
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("publisher %s is not heard: messages of topic %s from number %d on may be lost", id(e.Publisher), e.Topic, e.Next)
}

// expected are the instances with positions that have not been heard. Loop only.
type expected struct {
	absent map[reliable.Instance]bool
	ran    time.Duration    // for how long the group was joined and the loop ran
	at, up reliable.Instant // up to then, and what Loop.ran was then
}

// pass counts the time up to now, of which the loop ran up: none where it stood still, for it could not hear.
func (x *expected) pass(now, up reliable.Instant, joined bool) {
	if ran := up.Sub(x.up); joined && x.at > 0 && now.Sub(x.at)-ran < standstillAfter {
		x.ran += ran
	}
	x.at, x.up = now, up
}

// expect begins to wait for the instances that the group's subscription has positions of.
func (g *group) expect() {
	if g.from.Positions == nil {
		return
	}
	g.expected.absent = make(map[reliable.Instance]bool)
	for of, topics := range g.from.Positions.of {
		for _, x := range topics {
			if x.Group == g.index && !x.Gone {
				g.expected.absent[of] = true
			}
		}
	}
}

// tendExpected reports to the subscription instances that are silent for longer than a present one can be. It returns
// when it wants to be called again.
func (g *group) tendExpected(now reliable.Instant) reliable.Instant {
	x := &g.expected
	if len(x.absent) == 0 {
		return reliable.Never
	}
	if x.pass(now, g.l.ran(now), g.joined); x.ran <= reliable.LongestSilence {
		return now.Add(time.Second)
	}
	for _, of := range slices.SortedFunc(maps.Keys(x.absent), func(a, b reliable.Instance) int {
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

// isWanted reports whether a subscription wants the topic, by its name or a pattern.
func (g *group) isWanted(topic string) bool {
	return g.topics[wire.TopicID(topic)] != nil || len(g.patterns.matching(topic)) > 0
}

// publisherAbsent reports an absent instance to the subscription. Loop only.
func (s *Subscription) publisherAbsent(group string, err *AbsentError) {
	t := &topics.Track{ID: wire.TopicID(err.Topic), Name: err.Topic}
	s.lost(&topics.Item{Topic: t, Number: err.Next, Unknown: true, Cause: events.CausePublisherLost},
		group, &reliable.Origin{Publisher: err.Publisher, Epoch: err.Epoch})
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
