package pubsub

import (
	"fmt"
	"strconv"

	"github.com/fanfaremq/fanfare/internal/driver"
)

// Start is where a subscription begins: Live, which is its zero value, Window, State, or what
// Number returns. It is no number itself, so that From(500), which looks as if it began with
// message 500, does not compile.
type Start struct {
	kind   startKind
	number uint64 // with startNumber
}

type startKind uint8

const (
	startLive startKind = iota
	startWindow
	startState
	startNumber
)

var (
	// Live begins with what is published from now on.
	Live = Start{}
	// Window begins with all that a publisher's window still holds: Config.WindowBytes
	// there, as far as one and a half Config.ReceiveWindowBytes have room for it here.
	Window = Start{kind: startWindow}
	// State begins with the state that the publisher keeps (Publisher.State, Publisher.Retain):
	// first messages of which IsState is true, and then, without a hole, all that was published since
	// it was taken. A pattern begins with the state of every topic that matches and that the publisher
	// has by then; topics that come later begin with their first message.
	State = Start{kind: startState}
)

// mostNumber is above all numbers that messages have.
const mostNumber = 1 << 62

// Number begins with message n of each topic. What the publisher's window holds of it is
// fetched; what it does not hold any more is one *GapError at the start. The numbers are
// those of each publisher and epoch (Message.Number); a publisher that begins after the
// subscription, and so has another epoch, is heard from its first message on. To go on where
// an earlier subscription stood, give its last Message.Number and one more. Patterns are an
// error with it, which matches ErrWildcard.
func Number(n uint64) Start { return Start{startNumber, min(n, mostNumber)} }

// String is what ParseStart takes.
func (s Start) String() string {
	switch s.kind {
	case startNumber:
		return strconv.FormatUint(s.number, 10)
	case startWindow:
		return "window"
	case startState:
		return "state"
	}
	return "live"
}

// from is the start for the driver.
func (s Start) from() driver.From {
	if s.kind == startNumber {
		return driver.From{Window: true, Numbered: true, Number: s.number}
	}
	return driver.From{Window: s.kind == startWindow, State: s.kind == startState}
}

// ParseStart takes "live", "window", "state" or a message number.
func ParseStart(text string) (Start, error) {
	switch text {
	case "live":
		return Live, nil
	case "window":
		return Window, nil
	case "state":
		return State, nil
	}
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		return Live, fmt.Errorf("%q is none of live, window, state, and a message number", text)
	}
	return Number(n), nil
}

// From says where the subscription begins; Live is the default. What was published before
// comes first, in its order, and what is published from now on follows without a hole. The
// first message waits until all of it is there. A large window is asked for in parts, which may take some seconds; a
// part that does not come within Config.RecoveryDeadline is given up. State is, when it does not begin within
// that time, or pauses for five times as long.
//
// With State every publisher that is heard, also one that comes later, is asked for its state.
// It is collected with what others ask for, sent in the order of the stream, beside the messages,
// and delivered when it is whole; those who have joined notice nothing. The state, that of other topics of the group
// which is asked for at the same time, and what is published meanwhile must have room in the receive window, which is about a
// quarter of Config.ReceiveMemoryBytes for the first publisher, and so 16 MiB unless set, and less for others in the group:
// for more raise it. Where there is no state a
// *StateError says why, once for each topic and publisher, and what is published from then on
// follows.
//
// With Window, State and Number the subscription is a receiver of its own: publishers count it
// beside the other subscriptions of its bus, and it has windows of its own, which may take
// twice Config.ReceiveMemoryBytes. It takes part in flow control as any other when it has what
// it begins with; until then nobody waits for it, and what leaves a publisher's window
// before it was fetched is not part of it: with Number that is in the gap. With Window a
// pattern has all that the window holds of each topic that matches. Topics that Add adds
// begin with what is published from then on, without state.
func From(start Start) SubscribeOption {
	return func(o *subscribeOptions) { o.from = start }
}
