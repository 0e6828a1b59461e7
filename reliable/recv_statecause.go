package reliable

import "fmt"

// StatePart says what an Item has to do with state.
type StatePart uint8

const (
	// StateOfNone: it is a message or a gap.
	StateOfNone StatePart = iota
	// StateRecord is a part of the topic's state. Number is that of the first message which
	// is not in it.
	StateRecord
	// StateEnd: the topic's state is whole. Message Number follows.
	StateEnd
	// StateMissing: there is no state of the topic, and Why. What follows begins with
	// what is published from then on.
	StateMissing
)

// StateCause says why there is no state.
type StateCause uint8

const (
	// StateWhole: it is there.
	StateWhole StateCause = iota
	// StateNotKept: the publisher keeps none of the topic.
	StateNotKept
	// StateUnmade: the publisher could not make it.
	StateUnmade
	// StateUnanswered: the publisher did not answer, or not go on, in time.
	StateUnanswered
	// StateOverrun: the receive window does not hold the state and what is sent meanwhile.
	StateOverrun
	// StateIncomplete: packets of it were lost for good, again and again.
	StateIncomplete
	// StatePublisherGone: the publisher was lost or has ended before.
	StatePublisherGone
	// StateUnread: the subscription read too slowly, and was overtaken within it.
	StateUnread
	// StateTooLarge: a record exceeds the subscriber's limit for messages.
	StateTooLarge
)

func (c StateCause) String() string {
	switch c {
	case StateWhole:
		return "it is whole"
	case StateNotKept:
		return "its publisher keeps none"
	case StateUnmade:
		return "its publisher could not make it"
	case StateUnanswered:
		return "its publisher did not send it in time"
	case StateOverrun:
		return "the receive window has no room for it and what is published while it comes"
	case StateIncomplete:
		return "packets of it were lost for good, several times"
	case StatePublisherGone:
		return "its publisher has gone"
	case StateUnread:
		return "the subscription read too slowly"
	case StateTooLarge:
		return "a record of it exceeds the limit for messages"
	}
	return fmt.Sprintf("state cause(%d)", uint8(c))
}
