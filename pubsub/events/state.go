package events

import "fmt"

// StateCause says why a topic begins without the state that a subscription was to begin with.
type StateCause uint8

const (
	// StateWhole: the state is complete.
	StateWhole StateCause = iota
	// StateNotKept: the publisher has neither State nor Retain for the topic.
	StateNotKept
	// StateUnmade: its State returned an error.
	StateUnmade
	// StateUnanswered: it did not begin to send the state within the recovery deadline, or paused for five of them.
	StateUnanswered
	// StateOverrun: this bus has no room for the state and the messages published meanwhile.
	StateOverrun
	// StateIncomplete: packets of it were lost permanently, several times.
	StateIncomplete
	// StatePublisherGone: the publisher was lost, or ended, before the state was complete.
	StatePublisherGone
	// StateUnread: this subscription read too slowly, and was overtaken within it (pubsub.SlowGap).
	StateUnread
	// StateTooLarge: a record exceeds Config.MaxMessage.
	StateTooLarge
)

func (c StateCause) String() string {
	switch c {
	case StateWhole:
		return "it is complete"
	case StateNotKept:
		return "its publisher keeps none"
	case StateUnmade:
		return "its publisher could not make it"
	case StateUnanswered:
		return "its publisher did not send it in time"
	case StateOverrun:
		return "the receive window has no room for it and the messages published meanwhile"
	case StateIncomplete:
		return "packets of it were lost permanently, several times"
	case StatePublisherGone:
		return "its publisher left or was lost before it sent it"
	case StateUnread:
		return "the subscription read too slowly"
	case StateTooLarge:
		return "a record of it exceeds the limit for messages"
	}
	return fmt.Sprintf("state cause(%d)", uint8(c))
}
