package topics

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Sender is the message layer of a publisher's stream: it writes messages, index rounds and state into the packets of a
// reliable.Sender, and is its reliable.SenderControl. Its owner serialises all calls; only Writers may be filled
// concurrently.
type Sender struct {
	Requests
	stream  *reliable.Sender
	encoder *Encoder // nil: packets are sent as they are

	topics     topics
	keep       uint64 // topic runs after which receivers forget a topic
	members    members
	index      indexer
	state      *StateSender // nil: no state
	midMessage *Writer      // it has assigned some, but not all, fragments of a message
	batches    batches
}

// NewSender returns the message layer of stream, which must have no packets yet. With an encoder the stream must be
// Packed (reliable.SenderConfig). sink may be nil.
func NewSender(stream *reliable.Sender, encoder *Encoder, sink SenderSink) *Sender {
	if sink == nil {
		sink = noSenderSink{}
	}
	s := &Sender{stream: stream, encoder: encoder, keep: wire.TopicRuns, batches: batches{sink: sink}}
	s.members.byID, s.members.max = make(map[uint64]*member), stream.MaxMembers()
	s.Requests.init(&s.members, stream.PacketSize(), sink)
	s.index.asked = reliable.Never
	stream.SetControl(s)
	return s
}

// Forget sets how many topic runs of others bound the topics that receivers remember. All of a network have the same
// number; the default is wire.TopicRuns.
func (s *Sender) Forget(runs uint64) { s.keep = runs }

// Assign gives the closed packets of w, and with all the open one too, their sequences, and their messages their
// numbers, as far as flow control and the rate limit allow. The rest stays in w for the next Assign; the Reason says
// what it waits for. reliable.Sender.Next then returns the packets.
func (s *Sender) Assign(now reliable.Instant, w *Writer, all bool) events.Reason {
	switch {
	case !w.Pending():
		w.retire(true)
		return events.ReasonNone // the reason that blocks another writer stays
	case s.Busy(w):
		if s.stream.Blocked() == events.ReasonNone {
			s.stream.SetBlocked(events.ReasonOther)
		}
		return events.ReasonOther
	}
	for w.closed() || all && w.packet != nil {
		n, why := s.stream.Admit(now, w.Packets, w.off)
		if n == 0 {
			s.batches.emit()
			return why
		}
		if !w.closed() { // the open packet, short: it ends its train
			w.closeShort()
		}
		if s.encoder == nil {
			s.number(now, w, n)
		} else {
			s.encode(now, w)
		}
		s.midMessage = nil
		if w.fragmentAhead() && (w.midMessage || w.Pending()) {
			s.midMessage = w
		}
	}
	s.batches.emit()
	s.stream.SetBlocked(events.ReasonNone)
	w.retire(true)
	return events.ReasonNone
}

// closed reports whether there are closed packets without a sequence.
func (w *Writer) closed() bool { return w.Packets.Closed() > w.Packets.Assigned() }

// retire retires the block of w if all its packets have their sequence, and if it is full where full is set.
func (w *Writer) retire(full bool) {
	if w.Packets.Granted() && !w.Pending() && w.s.stream.Retire(w.Packets, full) {
		clear(w.runs)
		w.runs, w.plain, w.assignedRuns = w.runs[:0], w.plain[:0], 0
	}
}

// NextBlock retires the block of w if all its packets are assigned: the next packets begin another block, and so
// another train.
func (s *Sender) NextBlock(w *Writer) { w.retire(false) }

// Abandon gives up a message of which w has written only some fragments: receivers drop its fragments, as if it had
// never been published.
func (s *Sender) Abandon(w *Writer) {
	w.midMessage = false
	if s.midMessage == w && !w.closed() {
		s.midMessage = nil
		if s.stream.Blocked() == events.ReasonOther {
			s.stream.SetBlocked(events.ReasonNone)
		}
	}
}

// fragmentAhead reports whether the packet just assigned ends with a fragment that the next packet continues.
func (w *Writer) fragmentAhead() bool {
	if w.assignedRuns == 0 {
		return false
	}
	r := &w.runs[w.assignedRuns-1]
	return r.messages == 0 && !r.name
}

// Busy reports whether another writer than w has assigned only some fragments of a message.
func (s *Sender) Busy(w *Writer) bool { return s.midMessage != nil && s.midMessage != w }

// number gives the next n packets of w their sequences, and their runs their numbers.
func (s *Sender) number(now reliable.Instant, w *Writer, n int) {
	mem, offs, lens := w.Packets.Waiting()
	seq, runs := s.stream.Lead(), w.runs[w.assignedRuns:]
	for i, off := range offs[:n] {
		// A packet's runs begin before its end, those of the next packet behind it.
		end, messages := off+uint32(lens[i]), uint64(0)
		for len(runs) > 0 && runs[0].off < end {
			r := &runs[0]
			number := r.topic.next
			wire.SetRunNumber(mem[r.off:], number)
			r.topic.next = number + uint64(r.messages)
			if !r.name {
				r.topic.last = seq
			}
			if r.name || r.tracked {
				w.numbered(now, r, number, seq)
			}
			messages += uint64(r.messages)
			runs = runs[1:]
		}
		s.written(messages)
		seq++
	}
	w.assignedRuns = len(w.runs) - len(runs)
	s.stream.Sequence(w.Packets, n)
}

// encode is number with an Encoder: it gives a sequence to one packet, made of the next packet of w and of as many
// behind it as the Encoder combines.
func (s *Sender) encode(now reliable.Instant, w *Writer) {
	mem, offs, lens := w.Packets.Waiting()
	n, first := 0, w.Packets.Assigned()
	if !slices.Contains(w.plain, first) {
		n = s.encoder.Share(lens)
	}
	for i := range n {
		if slices.Contains(w.plain, first+uint64(i)) {
			n = i
			break
		}
	}
	runs := w.runs[w.assignedRuns:w.runsBelow(offs, lens, max(1, n))]
	for i := range runs {
		r := &runs[i]
		wire.SetRunNumber(mem[r.off:], r.topic.next)
		r.topic.next += uint64(r.messages)
	}
	var p []byte
	if n > 0 {
		if p, n = s.encoder.Encode(mem, offs[:n], lens[:n]); n == 0 {
			p = nil
		}
	}
	n = max(1, n)
	numbered := w.runsBelow(offs, lens, n) - w.assignedRuns
	for _, r := range runs[numbered:] { // another writer may assign messages of the same topics first
		r.topic.next -= uint64(r.messages)
	}
	messages, seq := uint64(0), s.stream.Lead()
	for i := range numbered {
		if !runs[i].name {
			runs[i].topic.last = seq
		}
		w.numbered(now, &runs[i], wire.RunNumber(mem[runs[i].off:]), seq)
		messages += uint64(runs[i].messages)
	}
	s.written(messages)
	w.assignedRuns += numbered
	s.stream.SequencePacked(w.Packets, n, p)
}

// runsBelow is how many of the writer's runs lie before the end of the first n of the packets at offs.
func (w *Writer) runsBelow(offs []uint32, lens []uint16, packets int) int {
	n, end := w.assignedRuns, offs[packets-1]+uint32(lens[packets-1])
	for n < len(w.runs) && w.runs[n].off < end {
		n++
	}
	return n
}

// numbered records that a run in packet seq has its number.
func (w *Writer) numbered(now reliable.Instant, r *runRef, number, seq uint64) {
	if r.tracked {
		x := w.tracked[0]
		w.tracked = slices.Delete(w.tracked, 0, 1)
		x.Assigned(now, number, seq)
	}
	if r.name {
		w.named--
		w.s.topicStated(r.topic, seq)
	}
}

// written counts the messages of a complete packet.
func (s *Sender) written(messages uint64) {
	s.stats.MessagesSent += messages
	s.batches.add(messages)
}

// SenderSink receives the events of a Sender. It must not call methods of the sender.
type SenderSink interface {
	// Batch: a number of consecutive packets got their sequences, in each of which the given number of messages ends.
	Batch(messages, packets uint64)
	// Forgotten: the stream no longer has a topic.
	Forgotten(topic uint64)
	// Accept reports whether a complete reply is accepted; if not, its receiver still owes one.
	Accept(x *CompleteReply) bool
}

// noSenderSink is the default: it accepts all replies.
type noSenderSink struct{}

func (noSenderSink) Batch(uint64, uint64)       {}
func (noSenderSink) Forgotten(uint64)           {}
func (noSenderSink) Accept(*CompleteReply) bool { return true }

// batches merges consecutive packets with equally many messages, so that the sink is called per train, not per packet.
type batches struct {
	sink              SenderSink
	messages, packets uint64
}

// add counts a packet.
func (b *batches) add(messages uint64) {
	if messages != b.messages {
		b.emit()
		b.messages = messages
	}
	b.packets++
}

func (b *batches) emit() {
	if b.packets > 0 {
		b.sink.Batch(b.messages, b.packets)
		b.packets = 0
	}
}

// Members returns the members known to want a topic; topic 0: all members.
func (s *Sender) Members(now reliable.Instant, topic uint64) []stats.Subscriber {
	return slices.DeleteFunc(s.stream.Members(now), func(x stats.Subscriber) bool {
		m := s.members.byID[uint64(x.ID)]
		return !m.knownToWant(&s.members.questions, topic)
	})
}
