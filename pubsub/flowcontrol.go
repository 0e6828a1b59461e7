package pubsub

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// FlowControl is the choice of subscribers that a publisher waits for. Other subscribers have gaps when they fall out
// of the publisher's window (Config.WindowBytes). Publisher.Delivered and Drain use the same choice. A quorum and a
// tag can be combined: FlowQuorum(2).Tagged("book") waits for the two fastest of the subscribers with that tag.
type FlowControl string

const (
	// FlowMin, the default: wait for all. The slowest present subscriber sets the rate.
	FlowMin FlowControl = "min"
	// FlowMax: wait for one. The fastest subscriber sets the rate.
	FlowMax FlowControl = "max"
	// FlowNone: wait for none. Limit the rate to what all subscribers can receive (Config.Rate).
	FlowNone FlowControl = "none"

	quorum    = "quorum:"
	tagged    = "tag:"
	maxQuorum = 1 << 16
)

// NoStallLimit as Config.StallLimit makes publishers wait without limit for subscribers that are alive.
const NoStallLimit time.Duration = -1

// flowForms lists the valid values, for errors.
var flowForms = fmt.Sprintf("min, max, none, quorum:N with N from 1 to %d, tag:TAG with a subscribers' tag of at most %d bytes, max,tag:TAG, or quorum:N,tag:TAG", maxQuorum, wire.MaxTag)

// FlowQuorum waits for the n fastest subscribers, or for all if there are fewer.
func FlowQuorum(n int) FlowControl { return FlowControl(fmt.Sprintf("%s%d", quorum, n)) }

// FlowTagged waits for all subscribers on buses with the tag (Config.Tag), and for no others. While none of them is
// present the publisher runs free.
func FlowTagged(tag string) FlowControl { return FlowControl(tagged + tag) }

// Tagged restricts f to the subscribers on buses with the tag: FlowMin.Tagged("book") equals FlowTagged("book").
// FlowNone and tagged flow control cannot be tagged: Open refuses the result.
func (f FlowControl) Tagged(tag string) FlowControl {
	if f == FlowMin || f == "" {
		return FlowTagged(tag)
	}
	return f + "," + FlowTagged(tag)
}

// strategy is f as the core's type, nil if f is invalid.
func (f FlowControl) strategy() reliable.FlowControl {
	switch f {
	case FlowMin:
		return reliable.MinFlow{}
	case FlowMax:
		return reliable.MaxFlow{}
	case FlowNone:
		return reliable.NoFlow{}
	}
	if tag, ok := strings.CutPrefix(string(f), tagged); ok {
		return taggedStrategy(FlowMin, tag)
	}
	if of, tag, ok := strings.Cut(string(f), ","+tagged); ok && of != string(FlowMin) && of != string(FlowNone) {
		return taggedStrategy(FlowControl(of), tag)
	}
	digits, ok := strings.CutPrefix(string(f), quorum)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > maxQuorum || FlowQuorum(n) != f {
		return nil
	}
	return reliable.QuorumFlow{N: n}
}

func taggedStrategy(of FlowControl, tag string) reliable.FlowControl {
	s := of.strategy()
	if s == nil || !isTag(tag) {
		return nil
	}
	return reliable.TaggedFlow{Tag: tag, Of: s}
}

// Delivered is the number of messages of this bus on the topic, counted from the first, that every present subscriber
// has received, or as many subscribers as the bus's flow control waits for; with FlowNone all, with FlowTagged those
// with the tag. Released subscribers do not count. Without subscribers it is the number of messages sent. The last
// delivered message has the Number Delivered()-1. Received means in order at the subscriber's bus: the subscription
// may not have read them yet.
//
// Call it now and then only: it searches the packets that subscribers still miss.
func (p *Publisher) Delivered() uint64 { return p.p.Delivered(p.topic) }
