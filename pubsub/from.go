package pubsub

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/engine"
)

// Start is where a subscription begins: Live, Window, State, or Positions. It is an interface so that From(500),
// which looks as if it began with message 500, does not compile.
type Start interface {
	// String returns the text that ParseStart accepts, except for Positions.
	String() string
	from(b *Bus, events bool) beginning
}

// beginning is a Start as the engine's type.
type beginning struct{ engine.From }

// start is a Start without data.
type start string

const (
	// Live begins with messages published from now on.
	Live start = "live"
	// Window begins with everything that a publisher's window still holds: up to Config.WindowBytes there, and up to one
	// and a half times Config.ReceiveWindowBytes here.
	Window start = "window"
	// State begins with the state that the publisher keeps (Publisher.State, Publisher.Retain): first messages with
	// IsState true, then, without a hole, everything published since that state. A pattern begins with the state of
	// every matching topic that the publisher has at that time; topics created later begin with their first message.
	State start = "state"
)

func (s start) String() string { return string(s) }

func (s start) from(*Bus, bool) beginning {
	return beginning{engine.From{Window: s == Window, State: s == State}}
}

// ParseStart parses "live", "window" or "state".
func ParseStart(text string) (Start, error) {
	switch s := start(text); s {
	case Live, Window, State:
		return s, nil
	}
	return nil, fmt.Errorf("%q is none of live, window, and state", text)
}

// From sets where the subscription begins; Live is the default. Earlier messages are delivered first, in order, and
// new ones follow without a hole. Delivery begins when the earlier messages are complete. A large window is fetched
// in parts, which may take some seconds; a part that does not arrive within Config.RecoveryDeadline is given up.
// State is given up when it does not begin within that time, or pauses for five times as long.
//
// With State the bus requests the state of every publisher, also of those that come up later. State of all requested
// topics is sent in the stream, between the messages, and delivered when it is complete; other subscribers are not
// affected. The receive window must have room for the state, for that of other topics of the group that is requested
// at the same time, and for the messages published meanwhile. It is about a quarter of Config.ReceiveMemoryBytes for
// the first publisher, 16 MiB unless set, and less for others in the group: raise it for more. If there is no state,
// a *StateError has the reason, once for each topic and publisher, and new messages follow.
//
// With Window, State and Positions the subscription is a separate receiver: publishers count it in addition to the
// other subscriptions of its bus, and it has separate windows, which may take twice Config.ReceiveMemoryBytes. Flow
// control waits for it only once the earlier messages have arrived; those that leave a publisher's window before that
// are not delivered: with Positions they are in a gap. With Window a pattern begins with everything that the window
// holds of each matching topic. Topics added by Add begin with new messages, without state.
func From(start Start) SubscribeOption {
	if p, ok := start.(*Positions); ok && p != nil {
		start = p.clone() // the caller may change it before it is used
	}
	return func(o *subscribeOptions) { o.from = start }
}
