package reliable

import "time"

// SenderSink learns what a Sender does, while it does it. It calls no method of the sender.
type SenderSink interface {
	// Sent: the transport has taken packets of a train.
	Sent(t SentTrain)
	// Batch: packets packets in a row have got their sequence, each with as many messages, or ends of messages.
	Batch(messages, packets uint64)
	// Asked: a NAK of a receiver asks for count packets in all, the lowest of them first.
	Asked(receiver, first, count uint64)
	// RoundTrip: a status has answered a heartbeat after d, without the time that its receiver took.
	RoundTrip(d time.Duration)
	// Replied: a reply is whole. It reports whether it is taken: else its receiver owes one still.
	Replied(x *CompleteReply) bool
}

// SentTrain is what a transport has taken.
type SentTrain struct {
	Repair  bool   // of packets that were sent before; First is the first of them, not the lowest
	First   uint64 // sequence
	Packets int
	Bytes   int
}

// batches counts packets in a row that have as many messages, so that the sink is called once a
// train and not once a packet.
type batches struct{ messages, packets uint64 }

// add takes in a packet.
func (b *batches) add(sink SenderSink, messages uint64) {
	if messages != b.messages {
		b.emit(sink)
		b.messages = messages
	}
	b.packets++
}

// emit passes the count to the sink.
func (b *batches) emit(sink SenderSink) {
	if b.packets > 0 {
		sink.Batch(b.messages, b.packets)
		b.packets = 0
	}
}

// noSenderSink is the default: it drops all events.
type noSenderSink struct{}

func (noSenderSink) Sent(SentTrain)               {}
func (noSenderSink) Batch(uint64, uint64)         {}
func (noSenderSink) Asked(uint64, uint64, uint64) {}
func (noSenderSink) Replied(*CompleteReply) bool  { return true }
func (noSenderSink) RoundTrip(time.Duration)      {}
