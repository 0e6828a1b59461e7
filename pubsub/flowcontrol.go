package pubsub

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// FlowControl decides for which of its subscribers a publisher waits. Others have gaps when they fall out of the
// publisher's window (Config.WindowBytes). Publisher.Delivered and Drain use it as well. Which subscribers count, and
// how many of them, are two choices: FlowQuorum(2).Tagged("book") waits for the two fastest of those with that tag.
type FlowControl string

const (
	// FlowMin, the default: for all. The slowest subscriber present sets the rate.
	FlowMin FlowControl = "min"
	// FlowMax: for one. The fastest subscriber sets the rate.
	FlowMax FlowControl = "max"
	// FlowNone: for none. Limit the rate to what all can take (Config.Rate).
	FlowNone FlowControl = "none"

	quorum     = "quorum:"
	tagged     = "tag:"
	mostQuorum = 1 << 16
)

// flowForms is what flow control may be, for errors.
var flowForms = fmt.Sprintf("min, max, none, quorum:N with N from 1 to %d, tag:TAG with a subscribers' tag of at most %d bytes, max,tag:TAG, or quorum:N,tag:TAG", mostQuorum, wire.MaxTag)

// FlowQuorum waits for n subscribers, the fastest ones, or for all where there are fewer.
func FlowQuorum(n int) FlowControl { return FlowControl(fmt.Sprintf("%s%d", quorum, n)) }

// FlowTagged waits for all subscribers on buses with the tag (Config.Tag), and for no others. While none of them is
// present the publisher runs free.
func FlowTagged(tag string) FlowControl { return FlowControl(tagged + tag) }

// Tagged is f among the subscribers on buses with the tag: FlowMin.Tagged("book") is FlowTagged("book"). FlowNone and
// tagged flow control cannot be tagged.
func (f FlowControl) Tagged(tag string) FlowControl {
	if f == FlowMin || f == "" {
		return FlowTagged(tag)
	}
	return f + "," + FlowTagged(tag)
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
	if tag, ok := strings.CutPrefix(string(f), tagged); ok {
		return taggedStrategy(FlowMin, tag)
	}
	if of, tag, ok := strings.Cut(string(f), ","+tagged); ok && of != string(FlowMin) && of != string(FlowNone) {
		return taggedStrategy(FlowControl(of), tag)
	}
	digits, ok := strings.CutPrefix(string(f), quorum)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > mostQuorum || FlowQuorum(n) != f {
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

// Delivered is how many of the topic's messages, of this bus and from the first on, have come to every subscriber that
// is present, or to as many as the bus's flow control waits for; with FlowNone to all, with FlowTagged to those with
// the tag. Subscribers that were released do not count, and without any it is how many were sent. Message.Number of the
// last one delivered is one less. Come means to the subscriber's bus, in order: it may not have read them yet.
//
// It is made for being asked now and then: it looks through the packets that subscribers still miss.
func (p *Publisher) Delivered() uint64 { return p.p.Delivered(p.topic) }
