package pubsub

import (
	"errors"
	"net"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Add adds topics and patterns to the subscription: messages published on them from now on are delivered, with the
// guarantees of Subscribe. Topics that it already has are ignored. After an error, which names the topic, none was
// added. In a handler it returns ErrInHandler. A subscription that begins with state or Positions accepts no more
// patterns: Add returns an error that matches ErrWildcard.
func (s *Subscription) Add(topics ...string) error {
	if s.s == nil {
		return failed("add topic", "", errNotMade)
	}
	for _, name := range topics {
		if p, err := parsePattern(name); err != nil || !p.Wild() {
			continue
		}
		if _, numbered := s.from.(*Positions); numbered {
			return &TopicError{name, "its topics would begin with messages that were published before: use a separate subscription", ErrWildcard}
		}
		if s.from == State {
			return &TopicError{name, "publishers may be sending state already, without that of its topics: use a separate subscription", ErrWildcard}
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

// Remove removes topics and patterns from the subscription. After it has returned, Next and handlers deliver no
// message of them, unless another topic or pattern of the subscription matches. Names must be given as they were
// added; others are ignored: one topic of a pattern cannot be removed. A subscription without topics stays open, and
// topics can be added again.
func (s *Subscription) Remove(topics ...string) error {
	if s.s == nil {
		return failed("remove topic", "", errNotMade)
	}
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

// changed is the error of a failed Add or Remove.
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

// topicNames checks topics and patterns and maps them to groups: a pattern to all groups in which matching topics can
// be.
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

// Stats returns a snapshot. On a closed bus, and in a handler, it lacks the counts of the streams.
func (s *Subscription) Stats() stats.Subscription {
	if s.newest != nil {
		return s.newest.Stats()
	}
	return s.s.Stats()
}
