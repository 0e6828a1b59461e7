package topics

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Item is a message or a gap.
type Item struct {
	Topic  *Track // nil for a gap of which no topic is known
	Number uint64 // of the message, or the first one lost; StateMissing: bytes of the window, with StateOverrun
	Data   []byte // the message, valid until the next call; nil for a gap
	// Lost is how many messages are missing, for a gap; zero for a message.
	Lost uint64
	// Unknown: how many are missing, if any, cannot be known.
	Unknown bool
	Cause   events.Cause
	Request bool // a message that can be replied to (Receiver.Respond)
	// State says what else it is; Why is of StateMissing.
	State reliable.StatePart
	Why   events.StateCause
}

// Gap reports whether the item stands for lost messages.
func (it *Item) Gap() bool { return it.Lost > 0 || it.Unknown }
