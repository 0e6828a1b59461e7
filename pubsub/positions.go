package pubsub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/fanfaremq/fanfare/internal/driver"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Positions is how far a subscriber has come, in each topic of each run of a publisher: numbers of messages belong
// to a topic, a Publisher and an Epoch. Give Add all that a subscription delivers, keep the Positions with the results, as JSON, and
// begin with them after a restart: From(positions) delivers each message that follows, once, or a *GapError in its place,
// whichever publishers were restarted meanwhile.
//
//   - A topic of which there is no position, as of a publisher that was started since, begins with message 0.
//     What is not held any more is a *GapError. So From(new(Positions)) begins with all that there ever was.
//   - A publisher of which there is a position, and that is not heard with that epoch for 8 s, has ended or was lost since: a *GapError
//     with Open says that messages may be lost, for nobody knows. Add keeps that: it is not said again.
//
// The zero value has no positions. One goroutine at a time may use it.
type Positions struct {
	of map[place]position
}

// place is a topic of a run of a publisher.
type place struct {
	publisher PublisherID
	epoch     uint64
	topic     string
}

// position is how far a subscriber has come there.
type position struct {
	next uint64 // number of the message that is wanted next
	lost bool   // it was delivered that the publisher is lost, or not heard
}

// Add takes in what a subscription has delivered, as a Handler, Messages and Next have it, in that order. Of several messages
// of a topic, publisher and epoch the last is enough. With PublisherEvents it forgets what publishers have ended.
func (p *Positions) Add(m Message, err error) {
	var gap *GapError
	var event *PublisherEvent
	switch {
	case errors.As(err, &gap):
		if gap.Topic != "" {
			p.set(place{gap.Publisher, gap.Epoch, gap.Topic}, position{gap.First + gap.Count, gap.Open})
		}
	case errors.As(err, &event):
		p.event(event)
	case err != nil || m.from == nil:
	case !m.IsState():
		p.set(place{m.Publisher(), m.Epoch(), m.Topic}, position{m.Number + 1, false})
	case m.IsStateEnd():
		p.set(place{m.Publisher(), m.Epoch(), m.Topic}, position{m.Number, false})
	}
}

// set goes on to a position, or notes that its publisher is lost.
func (p *Positions) set(at place, x position) {
	if x.next < p.of[at].next {
		return
	}
	if p.of == nil {
		p.of = make(map[place]position)
	}
	p.of[at] = x
}

// event notes that a publisher has ended, or is lost.
func (p *Positions) event(e *PublisherEvent) {
	for _, topic := range e.Topics {
		at := place{e.Publisher, e.Epoch, topic}
		x, has := p.of[at]
		switch {
		case !has:
		case e.Kind == events.PublisherEnded:
			delete(p.of, at)
		case e.Kind == events.PublisherLost, e.Kind == events.PublisherRestarted:
			p.of[at] = position{x.next, true}
		}
	}
}

func (p *Positions) clone() *Positions { return &Positions{maps.Clone(p.of)} }

// String is how many there are.
func (p *Positions) String() string { return fmt.Sprintf("positions (%d)", len(p.of)) }

// from implements Start.
func (p *Positions) from(b *Bus) beginning {
	to := driver.NewPositions()
	for at, x := range p.of {
		to.Set(driver.Instance{Publisher: uint64(at.publisher), Epoch: at.epoch}, driver.Position{Topic: at.topic, Group: b.Group(at.topic), Next: x.next, Lost: x.lost})
	}
	return beginning{driver.From{Window: true, Positions: to}}
}

// jsonPosition is a position as JSON has it: numbers of 64 bits are strings, for few others read them exactly.
type jsonPosition struct {
	Publisher string `json:"publisher"`
	Epoch     string `json:"epoch"`
	Topic     string `json:"topic"`
	Next      uint64 `json:"next"`
	Lost      bool   `json:"lost,omitempty"`
}

// MarshalJSON writes a list, in the order of publishers, epochs and topics.
func (p Positions) MarshalJSON() ([]byte, error) {
	list := make([]jsonPosition, 0, len(p.of))
	for at, x := range p.of {
		list = append(list, jsonPosition{at.publisher.String(), strconv.FormatUint(at.epoch, 10), at.topic, x.next, x.lost})
	}
	slices.SortFunc(list, func(a, b jsonPosition) int {
		return cmp.Or(cmp.Compare(a.Publisher, b.Publisher), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Topic, b.Topic))
	})
	return json.Marshal(list)
}

// mostNumber is above all numbers that messages have.
const mostNumber = 1 << 62

// UnmarshalJSON reads what MarshalJSON has written. After an error the positions are as before.
func (p *Positions) UnmarshalJSON(data []byte) error {
	var list []jsonPosition
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	of := make(map[place]position, len(list))
	for i, x := range list {
		publisher, err := ParsePublisherID(x.Publisher)
		if err == nil {
			err = CheckTopic(x.Topic)
		}
		epoch, epochErr := strconv.ParseUint(x.Epoch, 10, 64)
		if err = cmp.Or(err, epochErr); err == nil && x.Next > mostNumber {
			err = fmt.Errorf("no topic has a message %d", x.Next)
		}
		if err != nil {
			return fmt.Errorf("pubsub: position %d: %w", i, err)
		}
		of[place{publisher, epoch, x.Topic}] = position{x.Next, x.Lost}
	}
	p.of = of
	return nil
}
