package reliable

import "time"

// SenderSink receives the events of a Sender. It must not call methods of the sender.
type SenderSink interface {
	// Sent: the transport has taken packets of a train.
	Sent(t SentTrain)
	// Batch: a number of consecutive packets got their sequences, in each of which the given number of messages ends.
	Batch(messages, packets uint64)
	// Asked: a NAK of a receiver requests count packets, the lowest of them first.
	Asked(receiver, first, count uint64)
	// RoundTrip: a status answered a heartbeat after d, not counting its receiver's delay.
	RoundTrip(d time.Duration)
	// Replied: a reply is complete. It returns whether the reply is accepted; if not, its receiver still owes one.
	Replied(x *CompleteReply) bool
}

// SentTrain describes packets that the transport has taken.
type SentTrain struct {
	Repair  bool   // these are repairs; First is the first of them, not the lowest
	First   uint64 // sequence
	Packets int
	Bytes   int
}

// batches merges consecutive packets with equally many messages, so that the sink is called per train, not per packet.
type batches struct{ messages, packets uint64 }

// add counts a packet.
func (b *batches) add(sink SenderSink, messages uint64) {
	if messages != b.messages {
		b.emit(sink)
		b.messages = messages
	}
	b.packets++
}

func (b *batches) emit(sink SenderSink) {
	if b.packets > 0 {
		sink.Batch(b.messages, b.packets)
		b.packets = 0
	}
}

// noSenderSink is the default: it ignores all events.
type noSenderSink struct{}

func (noSenderSink) Sent(SentTrain)               {}
func (noSenderSink) Batch(uint64, uint64)         {}
func (noSenderSink) Asked(uint64, uint64, uint64) {}
func (noSenderSink) Replied(*CompleteReply) bool  { return true }
func (noSenderSink) RoundTrip(time.Duration)      {}
