package pubsub

import "github.com/fanfaremq/fanfare/pubsub/events"

// PublisherEvent is an event that a subscription delivers as an error (option PublisherEvents).
type PublisherEvent events.Event

func (e *PublisherEvent) Error() string { return events.Event(*e).String() }

// publicEvent returns the event with the error types of this package.
func publicEvent(e events.Event) events.Event {
	e.Err = publicError(e.Err)
	return e
}
