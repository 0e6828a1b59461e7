package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Sink learns of a Receiver's streams, during Handle, Tick and Resume: of what has no
// position in the order of a stream. What has goes to its Output. A Sink calls no method of
// the receiver and of its streams meanwhile but those that only read, and Keep.
type Sink interface {
	// Open: there is a new stream. Open returns where its events go.
	Open(st *Stream) Output
	// StreamUp: a publisher was heard for the first time, or again after StreamDown for silence.
	StreamUp(st *Stream)
	// StreamDown: the stream ended (CauseNone), or its publisher fell silent (CausePublisherLost, or CauseRestart if
	// another instance of its publisher id was received since). After silence it may come up again. Its Output gets an
	// EventEnd or an EventTotal in order: perhaps earlier, perhaps later.
	StreamDown(st *Stream, cause events.Cause)
	// DuplicateName: two instances of one publisher id have run at the same time for some seconds. st came up later
	// than other; other is nil if it is this bus itself. Once for each instance.
	DuplicateName(st, other *Stream)
	// Refused: a packet came of a publisher that is not followed.
	Refused(now Instant, publisher, epoch uint64, why events.Refusal)
	// Leg: a stream has fallen silent on one leg, or is heard by it again.
	Leg(st *Stream, e LegEvent)
	// Loss: what happened to packets that were found missing.
	Loss(st *Stream, e LossEvent)
	// Timed: the packet seq was delivered, took after its publisher had sent it first: by clocks
	// that agree (Receiver.SetClock).
	Timed(st *Stream, seq uint64, took time.Duration)
}

// Peers turns the source of a packet into a handle to reply to.
type Peers interface {
	Retain(from uint64) (peer uint32, ok bool)
	Forget(peer uint32)
}

// Sources are Peers that can be shown to people, too.
type Sources interface {
	Peers
	// Address is the text of a source; it may be empty.
	Address(from uint64) string
}

// TopicTotal is a topic's state at a sequence of its stream.
type TopicTotal struct {
	ID   uint64
	Next uint64 // number of its next message
	AsOf uint64 // the sequence at which it was so
	// Index counts the totals of one announcement of all topics, from 0 on: a reader that misses some, because it was
	// overtaken, does not have all.
	Index uint32
	// Complete, without a topic: all topics have been announced.
	Complete bool
	// Lost, without a topic: the publisher is lost, nothing more will be announced. CausePublisherLost, or CauseRestart
	// if another instance of its publisher id was received since; otherwise CauseNone.
	Lost events.Cause
}
