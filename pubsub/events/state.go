package events

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

var stateCauses = [...]string{
	StateWhole:         "it is complete",
	StateNotKept:       "its publisher keeps none",
	StateUnmade:        "its publisher could not make it",
	StateUnanswered:    "its publisher did not send it in time",
	StateOverrun:       "the receive window has no room for it and the messages published meanwhile",
	StateIncomplete:    "packets of it were lost permanently, several times",
	StatePublisherGone: "its publisher left or was lost before it sent it",
	StateUnread:        "the subscription read too slowly",
	StateTooLarge:      "a record of it exceeds the limit for messages",
}

func (c StateCause) String() string { return textOf(uint8(c), stateCauses[:], "state cause") }
