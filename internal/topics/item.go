package topics

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Item is a message, a gap, or a part of a topic's state.
type Item struct {
	Topic  *Track // nil for a gap of unknown topic
	Number uint64 // of the message, or the first one lost; StateMissing: bytes of the window, with StateOverrun
	Data   []byte // the message, valid until the next call; nil for a gap
	// Lost is the number of missing messages of a gap; zero for a message.
	Lost uint64
	// Unknown says that the number of missing messages is not known; it may be zero.
	Unknown bool
	Cause   events.Cause
	Request bool // a message that can be replied to (Receiver.Respond)
	// State says which part of a topic's state it is, if any. Why goes with StateMissing.
	State reliable.StatePart
	Why   events.StateCause
}

// Gap reports whether the item is a gap.
func (it *Item) Gap() bool { return it.Lost > 0 || it.Unknown }
