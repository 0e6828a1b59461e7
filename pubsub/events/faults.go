package events

import (
	"errors"
	"fmt"
)

// ErrPublisherFault: a publisher breaks the rules of the protocol. *FaultError says which.
var ErrPublisherFault = errors.New("publisher breaks the protocol")

// FaultError reports a fault of a publisher: its program is wrong, or its packets are forged. It is the Err of events
// of kind PublisherFault, which are emitted for the 1st, 2nd, 4th, 8th … occurrence. It matches ErrPublisherFault.
type FaultError struct {
	Publisher ID
	Epoch     ID
	Topic     string // of the latest; empty for FaultPacket
	Fault     Fault
	Count     uint64 // occurrences so far
}

func (e *FaultError) Error() string {
	switch e.Fault {
	case FaultTopic:
		return fmt.Sprintf("messages of publisher %s on topic %q are refused: its key, 0x%08x, is not trusted for this topic: add a line for it to the file of trust=, or find out where it runs", e.Publisher, e.Topic, uint64(e.Publisher)>>32)
	case FaultUnsupported:
		return fmt.Sprintf("packets of publisher %s cannot be read, %d so far: their codec, kind of run or packet size is not supported here: they are lost; run the same version of Fanfare on both sides", e.Publisher, e.Count)
	}
	topic := ""
	if e.Topic != "" {
		topic = fmt.Sprintf(" of topic %q", e.Topic)
	}
	return fmt.Sprintf("publisher %s breaks the protocol: %s%s, %d so far: its program is at fault, or its packets are forged", e.Publisher, e.Fault, topic, e.Count)
}

// Is makes errors.Is(err, ErrPublisherFault) true.
func (e *FaultError) Is(target error) bool { return target == ErrPublisherFault }

// Fault is a way to break the protocol that missing packets do not explain. docs/protocol §10.3.
type Fault uint8

const (
	// FaultNumbers: message numbers were sent twice. The second message is not delivered.
	FaultNumbers Fault = iota
	// FaultHole: message numbers are left out. A gap is delivered.
	FaultHole
	// FaultFragments: the fragments of a message do not follow each other. The message is lost.
	FaultFragments
	// FaultPacket: a packet is malformed, or larger than the stream's packets. Nothing of it is delivered.
	FaultPacket
	// FaultAnnounced: a topic run states more messages of a topic than were sent. A gap is delivered.
	FaultAnnounced
	// FaultTopic: messages of a topic for which the publisher's signing key is not trusted (Config.Trust). None of them is
	// delivered, and they are no gap. It is reported once for each topic, until the trust changes; Count is how often.
	FaultTopic
	// FaultUnsupported: a packet is valid, but its codec, kind of run or packet size is not supported by this
	// version. Its messages are lost, with gaps of CauseUnreadable.
	FaultUnsupported
	// FaultClock: heartbeats arrive and their times do not grow: the clock of the publisher stands still or goes back, old
	// heartbeats are replayed, or forged ones from the future came before. The publisher, or a leg of it, may be lost
	// because of that.
	FaultClock

	numFaults
)

var faults = [numFaults]string{
	FaultNumbers:     "message numbers are repeated",
	FaultHole:        "message numbers are left out",
	FaultFragments:   "fragments of a message do not follow each other",
	FaultPacket:      "packets are malformed",
	FaultAnnounced:   "topic runs state more messages than were sent",
	FaultTopic:       "its key is not trusted for the topic",
	FaultClock:       "the times of its heartbeats do not grow: its clock stands still or goes back, or heartbeats were replayed or forged",
	FaultUnsupported: "packets have a codec, kind of run or packet size that is not supported here",
}

func (f Fault) String() string { return textOf(uint8(f), faults[:], "fault") }

// FaultCounts counts the faults of one publisher by kind.
type FaultCounts [numFaults]uint64

// Add counts a fault, and reports whether it is to be emitted: the 1st, 2nd, 4th, 8th … is.
func (c *FaultCounts) Add(kind Fault) (n uint64, emit bool) {
	c[kind]++
	n = c[kind]
	return n, n&(n-1) == 0
}

// DictionaryError reports a dictionary that is missing to read the packets of a publisher. It is the
// Err of events of kind DictionaryMissing.
type DictionaryError struct {
	Publisher  ID
	Epoch      ID
	Codec      string // s2 or zstd
	Dictionary string // its name, see pubsub.DictionaryName
}

func (e *DictionaryError) Error() string {
	return fmt.Sprintf("publisher %s compresses its packets (%s) with dictionary %s, which this bus does not have: they are lost; give it to this bus, too (Config.Dictionaries, -dict)", e.Publisher, e.Codec, e.Dictionary)
}

// ErrTopicCollision: two topic names have the same 64-bit id; rename one.
var ErrTopicCollision = errors.New("topic ids collide")

// TopicCollisionError names two topics with the same 64-bit id. A publisher or a subscription of the second on one bus
// is refused with it. In a subscription's stream it means that a publisher elsewhere has such a topic: it is reported
// once, nothing more of that publisher is delivered under that id, and the stream continues. It matches
// ErrTopicCollision.
type TopicCollisionError struct {
	ID        ID     // of both topics
	Known     string // the topic that is published or subscribed here
	Other     string // the other one
	Publisher ID     // that has Other; 0: this bus
}

func (e *TopicCollisionError) Error() string {
	if e.Publisher != 0 {
		return fmt.Sprintf("publisher %s has a topic %q with the same id %s as %q: rename one of them; its messages are not delivered here", e.Publisher, e.Other, e.ID, e.Known)
	}
	return fmt.Sprintf("topics %q and %q have the same id %s: rename one of them", e.Known, e.Other, e.ID)
}

// Is makes errors.Is(err, ErrTopicCollision) true.
func (e *TopicCollisionError) Is(target error) bool { return target == ErrTopicCollision }

// ErrPublisherRefused: a publisher is not received. *PublisherRefusedError says which.
var ErrPublisherRefused = errors.New("packets of a publisher are refused, because a limit of this bus is reached")

// PublisherRefusedError reports that nothing of a publisher is delivered. It stands in the stream of each
// subscription in the publisher's group, once a publisher, also where the publisher has none of the subscription's
// topics: this bus cannot know. The stream continues with the other publishers. If the publisher is received later,
// its messages are delivered from then on. It matches ErrPublisherRefused.
type PublisherRefusedError struct {
	Publisher ID
	Epoch     ID     // of the publisher
	Group     string // address of the group
	Reason    Refusal
}

func (e *PublisherRefusedError) Error() string {
	return fmt.Sprintf("publisher %s is not received in group %s: %s; raise %s", e.Publisher, e.Group, e.Reason, e.Reason.Raise())
}

// Is makes errors.Is(err, ErrPublisherRefused) true.
func (e *PublisherRefusedError) Is(target error) bool { return target == ErrPublisherRefused }

// Refusal is why a publisher is not received. docs/protocol §12.1.
type Refusal uint8

// Reasons of a PublisherRefusedError.
const (
	// RefusedPublishers: the group has Config.MaxPublishers already, and all of them are alive.
	RefusedPublishers Refusal = iota
	// RefusedMemory: Config.ReceiveMemoryBytes is used up, or the system gives none.
	RefusedMemory
	// RefusedPeers: the transport can reply to no further publisher.
	RefusedPeers
)

func (r Refusal) String() string {
	switch r {
	case RefusedPublishers:
		return "the maximum number of publishers is already received in its group"
	case RefusedMemory:
		return "there is no memory for its receive window"
	case RefusedPeers:
		return "the transport has reached its maximum number of peers"
	}
	return fmt.Sprintf("refusal(%d)", uint8(r))
}

// Raise names the limit to raise so that the publisher is received.
func (r Refusal) Raise() string {
	switch r {
	case RefusedMemory:
		return "Config.ReceiveMemoryBytes, or the host's memory"
	case RefusedPeers:
		return "the transport's limit on peers (peers= in its URL)"
	}
	return "Config.MaxPublishers"
}
