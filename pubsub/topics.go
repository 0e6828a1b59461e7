package pubsub

import (
	"errors"
	"net"

	"github.com/fanfaremq/fanfare/internal/engine"
)

// Add adds topics and patterns to the subscription: what is published on them from now on
// is delivered, in the order and with the gaps that Subscribe promises. What it has
// already changes nothing. After an error, which names the topic, none was added. In a
// handler it is ErrInHandler: the bus cannot wait for itself. A subscription that begins with
// state or Positions takes no more patterns, which is an error that matches ErrWildcard.
func (s *Subscription) Add(topics ...string) error {
	for _, name := range topics {
		if p, err := parsePattern(name); err != nil || !p.Wild() {
			continue
		}
		if _, numbered := s.from.(*Positions); numbered {
			return &TopicError{name, "its topics would begin with messages that were published before: give it a subscription of its own", ErrWildcard}
		}
		if s.from == State {
			return &TopicError{name, "publishers may be sending the state of what was wanted before, which lacks its topics: give it a subscription of its own", ErrWildcard}
		}
	}
	names, err := s.bus.topicNames(topics)
	if err != nil {
		return err
	}
	if err := s.s.Add(names); err != nil {
		return s.changed("add topic", names, err)
	}
	s.newest.Add(names)
	return nil
}

// Remove removes topics and patterns from the subscription. Nothing of them is delivered
// by calls of Next that begin when it has returned, and by a handler, unless another topic
// or pattern of the subscription matches. What it does not have, as it was added, changes
// nothing: one topic of a pattern cannot be removed. A subscription without topics stays open, and more can be added.
func (s *Subscription) Remove(topics ...string) error {
	names, err := s.bus.topicNames(topics)
	if err != nil {
		return err
	}
	gone, err := s.s.Remove(names)
	if err != nil {
		return s.changed("remove topic", names, err)
	}
	s.newest.Remove(gone)
	return nil
}

// changed is the error of a change of topics.
func (s *Subscription) changed(call string, names []engine.TopicName, err error) error {
	var topic *engine.TopicError
	if errors.As(err, &topic) {
		return failed(call, topic.Topic, topic.Err)
	}
	if err == nil || len(names) == 0 {
		return err
	}
	if errors.Is(err, net.ErrClosed) {
		err = errSubscriptionClosed
	}
	return failed(call, names[0].Name, err)
}

// topicNames checks topics and patterns and maps them to groups: a pattern to all those in
// which topics that match can be.
func (b *Bus) topicNames(topics []string) ([]engine.TopicName, error) {
	names := make([]engine.TopicName, 0, len(topics))
	for _, name := range topics {
		p, err := parsePattern(name)
		switch {
		case err != nil:
			return nil, err
		case !p.Wild():
			names = append(names, engine.TopicName{Name: name, Group: b.Group(name)})
			continue
		}
		for _, group := range b.groups.Groups(p) {
			names = append(names, engine.TopicName{Name: name, Group: group, Pattern: p})
		}
	}
	return names, nil
}

// SubscriptionStats is a snapshot of what a subscription has delivered and what it lacks.
type SubscriptionStats struct {
	// Topics is how many topics and patterns it has.
	Topics int
	// Messages is how many were delivered. While a Next is running those of the packet
	// that it reads are missing.
	Messages uint64
	// Pending is how many packets were received in order, for any of its topics or
	// others of their groups, and are not read yet: the sum of all lags.
	Pending int
	// Replaced is how many messages were replaced by newer ones of their keys, Waiting how
	// many messages, gaps and events wait to be read, and WaitingBytes the memory for
	// their keys and data, all with Conflate.
	Replaced              uint64
	Waiting, WaitingBytes int
	// Publishers are those that it follows, in its groups. Some may have none of its
	// topics.
	Publishers []SubscriptionPublisher
	// Lost is what was lost for good, by cause, each cause once.
	Lost []LossStats
}

// SubscriptionPublisher is how far a subscription has read what one publisher sends to one
// group.
type SubscriptionPublisher struct {
	Publisher PublisherID
	Epoch     uint64
	Group     string // address of the group
	// Lag is how many packets were received in order and are not read yet. A handler
	// that the bus calls has none: it is called with packets as they come.
	Lag int
	// Relevant says that it has announced a topic which is subscribed on this bus.
	Relevant bool
}

// Gaps is how many GapErrors were delivered, whatever their cause.
func (s SubscriptionStats) Gaps() (n uint64) {
	for _, x := range s.Lost {
		n += x.Gaps
	}
	return n
}

// Stats takes a snapshot. When the bus is closed, and in a handler, it holds what is
// counted without a look at the streams.
func (s *Subscription) Stats() SubscriptionStats {
	var d engine.SubscriptionStats
	if s.newest != nil {
		d = s.newest.Stats()
	} else {
		d = s.s.Stats()
	}
	st := SubscriptionStats{
		Topics: d.Topics, Messages: d.Messages, Pending: d.Pending, Replaced: d.Replaced, Waiting: d.Waiting, WaitingBytes: d.WaitingBytes, Lost: publicLosses(d.Lost),
	}
	for _, p := range d.Publishers {
		st.Publishers = append(st.Publishers, SubscriptionPublisher{PublisherID(p.Publisher), p.Epoch, p.Group, p.Lag, p.Relevant})
	}
	return st
}
