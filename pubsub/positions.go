package pubsub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Positions records how far a subscriber has read each topic of each run of a publisher: message numbers belong to a
// topic, a Publisher and an Epoch. Pass everything that a subscription delivers to Add, store the Positions as JSON
// together with the results, and begin with them after a restart: From(positions) delivers every later message of
// each present run once, or a *GapError in its place.
//
//   - A topic without a position, such as one of a publisher that was started since, begins with message 0. Messages
//     that the publisher no longer holds are a *GapError. So From(new(Positions)) begins with everything published.
//   - A publisher with a position of which no packet with that epoch arrives for 8 s has ended or was lost: a *GapError
//     with Open reports that messages may be lost, because this bus cannot know. With PublisherEvents Add keeps that
//     report, and it is not repeated unless the publisher comes up meanwhile; without, each subscription that begins
//     with that position repeats it.
//
// A run that began and ended while no subscription with these positions existed is not reported. A publisher that
// waits for its subscribers (WaitSubscribers) does not publish without them.
//
// Positions holds one position for each topic and run of which something was delivered, so it grows with each restart
// of a publisher. With PublisherEvents those of a run that has ended are removed when the next run of the same
// Config.Name comes up. Those of a run that was lost stay, because it may come up again; so do those of publishers
// without a name.
//
// The zero value has no positions. One goroutine at a time may use it.
type Positions struct {
	of map[events.Instance]map[string]position // by topic
}

// runTopic is a topic of a run of a publisher.
type runTopic struct {
	events.Instance
	topic string
}

// position is how far a subscriber has read a runTopic.
type position struct {
	next uint64 // number of the next message to read
	gone gone
}

// gone records that a run is absent. Its positions are kept: the run may come up again, because an end can be forged
// (docs/protocol §11.6).
type gone struct {
	lost  bool // it is lost, or was never received
	ended bool // it has ended, and everything was delivered
}

// Add records a delivery: the message and error that a Handler, Messages or Next received, in that order. Of several
// messages of one topic, publisher and epoch the last is enough.
func (p *Positions) Add(m Message, err error) {
	switch {
	case err != nil:
		p.failed(err)
	case m.from == nil:
	case !m.IsState():
		p.set(runTopic{m.from.Instance, m.Topic}, position{next: m.Number + 1})
	case m.IsStateEnd():
		p.set(runTopic{m.from.Instance, m.Topic}, position{next: m.Number})
	}
}

// failed is separate from Add because errors.As moves its targets to the heap.
func (p *Positions) failed(err error) {
	var gap *GapError
	var event *PublisherEvent
	switch {
	case errors.As(err, &gap):
		if gap.Topic != "" {
			p.set(runTopic{events.Instance{Publisher: gap.Publisher, Epoch: gap.Epoch}, gap.Topic},
				position{gap.First + gap.Count, gone{lost: gap.Open && gap.events}})
		}
	case errors.As(err, &event):
		p.event(event)
	}
}

// set stores a position, or records that its publisher is lost.
func (p *Positions) set(at runTopic, x position) {
	topics := p.of[at.Instance]
	if topics == nil {
		if p.of == nil {
			p.of = make(map[events.Instance]map[string]position)
		}
		topics = make(map[string]position)
		p.of[at.Instance] = topics
	}
	if x.next >= topics[at.topic].next {
		topics[at.topic] = x
	}
}

// event records that a publisher came up, ended or was lost.
func (p *Positions) event(e *PublisherEvent) {
	of := events.Instance{Publisher: e.Publisher, Epoch: e.Epoch}
	topics := p.of[of]
	var now gone
	switch e.Kind {
	case events.PublisherUp:
		if topics == nil {
			p.forgetEnded(of)
		}
		for topic, x := range topics { // also in groups where it was never lost: better to report a gap twice than never
			topics[topic] = position{next: x.next}
		}
		return
	case events.PublisherEnded:
		now.ended = true
	case events.PublisherLost, events.PublisherRestarted:
		now.lost = true
	default:
		return
	}
	for _, topic := range e.Topics {
		if x, has := topics[topic]; has {
			topics[topic] = position{x.next, now}
		}
	}
}

// forgetEnded removes the positions of runs that ended before another run of their publisher began.
func (p *Positions) forgetEnded(next events.Instance) {
	for of, topics := range p.of {
		if of.Publisher != next.Publisher {
			continue
		}
		maps.DeleteFunc(topics, func(_ string, x position) bool { return x.gone.ended })
		if len(topics) == 0 {
			delete(p.of, of)
		}
	}
}

func (p *Positions) clone() *Positions {
	c := &Positions{maps.Clone(p.of)}
	for of, topics := range c.of {
		c.of[of] = maps.Clone(topics)
	}
	return c
}

// len is the number of positions.
func (p *Positions) len() (n int) {
	for _, topics := range p.of {
		n += len(topics)
	}
	return n
}

// String returns the number of positions, in words.
func (p *Positions) String() string { return fmt.Sprintf("positions (%d)", p.len()) }

// from implements Start. Without events nothing would report that a publisher came up again, so the record that it
// was lost is ignored.
func (p *Positions) from(b *Bus, events bool) beginning {
	to := engine.NewPositions()
	for of, topics := range p.of {
		for topic, x := range topics {
			to.Set(of, engine.Position{Topic: topic, Group: b.Group(topic), Next: x.next,
				Gone: x.gone.ended || x.gone.lost && events})
		}
	}
	return beginning{engine.From{Window: true, Positions: to}}
}

type jsonPosition struct {
	events.Instance
	Topic string `json:"topic"`
	Next  uint64 `json:"next"`
	Lost  bool   `json:"lost,omitempty"`
	Ended bool   `json:"ended,omitempty"`
}

// MarshalJSON writes a list sorted by publisher, epoch and topic.
func (p Positions) MarshalJSON() ([]byte, error) {
	list := make([]jsonPosition, 0, p.len())
	for of, topics := range p.of {
		for topic, x := range topics {
			list = append(list, jsonPosition{of, topic, x.next, x.gone.lost, x.gone.ended})
		}
	}
	slices.SortFunc(list, func(a, b jsonPosition) int {
		return cmp.Or(cmp.Compare(a.Publisher, b.Publisher), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Topic, b.Topic))
	})
	return json.Marshal(list)
}

// maxNumber is greater than every message number.
const maxNumber = 1 << 62

// UnmarshalJSON reads the output of MarshalJSON. After an error the positions are unchanged.
func (p *Positions) UnmarshalJSON(data []byte) error {
	var list []jsonPosition
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	var read Positions
	for i, x := range list {
		err := CheckTopic(x.Topic)
		if err == nil && x.Next > maxNumber {
			err = fmt.Errorf("message number %d is too large", x.Next)
		}
		if err != nil {
			return fmt.Errorf("pubsub: position %d: %w", i, err)
		}
		read.set(runTopic{x.Instance, x.Topic}, position{x.Next, gone{x.Lost, x.Ended}})
	}
	*p = read
	return nil
}
