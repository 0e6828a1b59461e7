package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Sink receives the events of a Receiver's streams that have no position in the order of a stream; others go to its
// Output. The receiver calls it during Handle, Tick and Resume; meanwhile a Sink may call only Keep, and methods of the
// receiver and its streams that change nothing.
type Sink interface {
	// Open: there is a new stream. Open returns the output for its events, and its message layer.
	Open(now Instant, st *Stream) (Output, Contents)
	// StreamUp: a publisher was received for the first time, or again after StreamDown because of silence.
	StreamUp(st *Stream)
	// StreamDown: the stream ended (CauseNone), or its publisher fell silent (CausePublisherLost, or CauseRestart if
	// another instance of its publisher id was received since). After silence the stream may come up again. Its Output
	// gets an EventEnd or an EventTotal in order, which may be earlier or later.
	StreamDown(st *Stream, cause events.Cause)
	// DuplicateName: two instances of one publisher id have run at the same time for some seconds. st came up later than
	// other; other is nil if it is this bus itself. Once per instance.
	DuplicateName(st, other *Stream)
	// Refused: a packet arrived from a publisher that the receiver does not follow.
	Refused(now Instant, of events.Instance, why events.Refusal)
	// Leg: a stream fell silent on one leg, or is received by it again.
	Leg(st *Stream, e LegEvent)
	// Loss: a step in the recovery of missing packets.
	Loss(st *Stream, e LossEvent)
	// Timed: packet seq was delivered, took after its publisher first sent it, by clocks that agree (Receiver.SetClock).
	Timed(st *Stream, seq uint64, took time.Duration)
}

// LossStep is a step in the recovery of missing packets.
type LossStep uint8

const (
	// LossFound: packets were found missing.
	LossFound LossStep = iota
	// LossAsked: packets are requested for the first time, Took after they were found missing.
	LossAsked
	// LossNAK: one NAK requests Count packets, the first of them Seq. Some may have been requested before.
	LossNAK
	// LossRepaired: a repair has arrived, Took after the packet was found missing, and Asked after the last request; Asked
	// is 0 if only other receivers requested it.
	LossRepaired
	// LossDelivered: a repaired packet was delivered in order, Took after it arrived.
	LossDelivered
)

// LossEvent reports a step for packets of a stream, Count from Seq on, to a Sink. Packets of the history are not lost:
// only LossNAK reports them. Packets that are given up are a gap at the stream's Output.
type LossEvent struct {
	Step        LossStep
	Seq, Count  uint64
	Took, Asked time.Duration
}

// Peers turns the source of a packet into a handle for replies.
type Peers interface {
	Retain(from uint64) (peer uint32, ok bool)
	Forget(peer uint32)
}

// Sources are Peers with addresses that can be shown.
type Sources interface {
	Peers
	// Address returns the text of a source; it may be empty.
	Address(from uint64) string
}

// SenderSink receives the events of a Sender. It must not call methods of the sender.
type SenderSink interface {
	// Sent: the transport has taken packets of a train.
	Sent(t SentTrain)
	// Asked: a NAK of a receiver requests count packets, the lowest of them first.
	Asked(receiver, first, count uint64)
	// RoundTrip: a status answered a heartbeat after d, not counting its receiver's delay.
	RoundTrip(d time.Duration)
}

// SentTrain describes packets that the transport has taken.
type SentTrain struct {
	Repair  bool   // these are repairs; First is the first of them, not the lowest
	First   uint64 // sequence
	Packets int
	Bytes   int
}

// noSenderSink is the default: it ignores all events.
type noSenderSink struct{}

func (noSenderSink) Sent(SentTrain)               {}
func (noSenderSink) Asked(uint64, uint64, uint64) {}
func (noSenderSink) RoundTrip(time.Duration)      {}
