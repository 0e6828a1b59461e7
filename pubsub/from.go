package pubsub

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/engine"
)

// Start is where a subscription begins: Live, Window, State, or Positions. It is no number, so that From(500), which
// looks as if it began with message 500, does not compile.
type Start interface {
	// String is what ParseStart takes, but for Positions.
	String() string
	from(b *Bus, events bool) beginning
}

// beginning is a Start as the engine has it.
type beginning struct{ engine.From }

// start is a Start that is the same for all streams.
type start string

const (
	// Live begins with what is published from now on.
	Live start = "live"
	// Window begins with all that a publisher's window still holds: Config.WindowBytes
	// there, as far as one and a half Config.ReceiveWindowBytes have room for it here.
	Window start = "window"
	// State begins with the state that the publisher keeps (Publisher.State, Publisher.Retain):
	// first messages of which IsState is true, and then, without a hole, all that was published since
	// it was taken. A pattern begins with the state of every topic that matches and that the publisher
	// has by then; topics that come later begin with their first message.
	State start = "state"
)

func (s start) String() string { return string(s) }

func (s start) from(*Bus, bool) beginning {
	return beginning{engine.From{Window: s == Window, State: s == State}}
}

// ParseStart takes "live", "window" or "state".
func ParseStart(text string) (Start, error) {
	switch s := start(text); s {
	case Live, Window, State:
		return s, nil
	}
	return nil, fmt.Errorf("%q is none of live, window, and state", text)
}

// From says where the subscription begins; Live is the default. What was published before comes first, in its order,
// and what is published from now on follows without a hole. The first message waits until all of it is there. A large
// window is asked for in parts, which may take some seconds; a part that does not come within Config.RecoveryDeadline
// is given up. State is, when it does not begin within that time, or pauses for five times as long.
//
// With State every publisher is asked for its state, also one that comes up later. The state of all topics that
// subscribers ask for is sent in the order of the stream, beside the messages, and delivered when it is complete;
// earlier subscribers are not affected. The receive window must have room for the state, for that of other topics of
// the group that is asked for at the same time, and for what is published meanwhile. It is about a quarter of
// Config.ReceiveMemoryBytes for the first publisher, 16 MiB unless set, and less for others in the group: raise it for
// more. If there is no state a *StateError has the reason, once for each topic and publisher, and what is published
// from then on follows.
//
// With Window, State and Positions the subscription is a receiver of its own: publishers count it
// beside the other subscriptions of its bus, and it has windows of its own, which may take
// twice Config.ReceiveMemoryBytes. Flow control waits for it when it has received its beginning; before that, messages
// that leave a publisher's window before they are fetched are not part of it: with Positions they are in the gap. With
// Window a pattern has everything that the window holds of each topic that matches. Topics that Add adds begin with
// what is published from then on, without state.
func From(start Start) SubscribeOption {
	if p, ok := start.(*Positions); ok && p != nil {
		start = p.clone() // it may change before it is used
	}
	return func(o *subscribeOptions) { o.from = start }
}
