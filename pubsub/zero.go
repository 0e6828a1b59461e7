package pubsub

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/internal/engine"
)

// Errors of calls on zero values, and with nil options.

// errNotMade: the method was called on a zero value.
var errNotMade = errors.New("it is a zero value: use the one that Open, or a method of the bus, returned")

// opened returns an error if the bus is nil or a zero value.
func (b *Bus) opened() error {
	if b == nil || b.loop == nil {
		return errNotMade
	}
	return nil
}

// subscribeOptions applies the options of a subscription to topic.
func (b *Bus) subscribeOptions(topic string, options []SubscribeOption) (subscribeOptions, error) {
	o := subscribeOptions{topics: []string{topic}, from: Live}
	if err := b.opened(); err != nil {
		return o, err
	}
	for i, f := range options {
		if f == nil {
			return o, fmt.Errorf("option %d of %d is nil", i+1, len(options))
		}
		f(&o)
	}
	if p, ok := o.from.(*Positions); o.from == nil || ok && p == nil {
		return o, errors.New("From needs Live, Window, State, or Positions that are not nil")
	}
	return o, nil
}

// unreadable is the reason why NextBatch cannot read the subscription.
func (s *Subscription) unreadable() error {
	switch {
	case s.s == nil:
		return errNotMade
	case s.worker != nil:
		return engine.ErrHandled
	}
	return nil
}

// err is the reason why the subscription ended, from the engine.
func (s *Subscription) err() error {
	if s.s == nil {
		return errNotMade
	}
	return s.s.Err()
}

// close ends the subscription in the engine.
func (s *Subscription) close() error {
	if s.s == nil {
		return errNotMade
	}
	return s.s.Close()
}
