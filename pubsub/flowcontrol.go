package pubsub

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/reliable"
)

// FlowControl decides for how many of its subscribers a publisher waits. Who falls behind
// the others has gaps when it falls out of the publisher's window (Config.WindowBytes).
// Publisher.Delivered and Drain go by it, too.
type FlowControl string

const (
	// FlowMin, the default: for all. The slowest subscriber present sets the rate.
	FlowMin FlowControl = "min"
	// FlowMax: for one. The fastest subscriber sets the rate.
	FlowMax FlowControl = "max"
	// FlowNone: for nobody. Limit the rate to what all can take (Config.Rate).
	FlowNone FlowControl = "none"

	quorum     = "quorum:"
	mostQuorum = 1 << 16
)

// FlowQuorum waits for n subscribers, the fastest ones, or for all where there are fewer.
func FlowQuorum(n int) FlowControl { return FlowControl(fmt.Sprintf("%s%d", quorum, n)) }

// ParseFlowControl checks a flow control given as text: "min", "max", "none", or
// "quorum:3".
func ParseFlowControl(text string) (FlowControl, error) {
	f := FlowControl(text)
	if f.strategy() == nil {
		return "", fmt.Errorf("flow control %q is none of min, max, none, and quorum:N with N from 1 to %d", text, mostQuorum)
	}
	return f, nil
}

// strategy is what the core does, nil if f is no flow control.
func (f FlowControl) strategy() reliable.FlowControl {
	switch f {
	case FlowMin:
		return reliable.MinFlow{}
	case FlowMax:
		return reliable.MaxFlow{}
	case FlowNone:
		return reliable.NoFlow{}
	}
	digits, ok := strings.CutPrefix(string(f), quorum)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > mostQuorum || FlowQuorum(n) != f {
		return nil
	}
	return reliable.QuorumFlow{N: n}
}

// Delivered is how many of the topic's messages, of this bus and from the first on, have
// come to every subscriber that is present, or to as many as the bus's flow control waits
// for; with FlowNone to all. Subscribers that were let go do not count, and without any
// it is how many were sent. Message.Number of the last one delivered is one less. Come
// means to the subscriber's bus, in order: it may not have read them yet.
//
// It is made for being asked now and then: it looks through the packets that subscribers
// still lack.
func (p *onTopic) Delivered() uint64 { return p.p.Delivered(p.topic) }
