package reliable

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Assign gives the closed packets of w, and with all the open one too, their sequences, as far as flow control and the
// rate limit allow. The rest stays in w for the next Assign; the Reason says what it waits for. Next then returns the
// packets.
func (s *Sender) Assign(now Instant, w *Writer, all bool) events.Reason {
	switch {
	case !w.Pending():
		s.retireFull(w)
		return events.ReasonNone // the reason that blocks another writer stays
	case s.Busy(w):
		if s.blocked == events.ReasonNone {
			s.blocked = events.ReasonOther
		}
		return events.ReasonOther
	}
	for w.assigned < w.open || all && w.packet != nil {
		lens := w.b.lens[w.assigned:w.open]
		switch {
		case len(lens) == 0:
			lens = []uint16{uint16(s.cfg.padded(w.off))}
		case s.cfg.Encoder != nil:
			lens = lens[:1] // they may be combined into one
		}
		n, why := s.admit(now, lens)
		if n == 0 {
			s.block(now, why)
			return why
		}
		if w.assigned == w.open { // the open packet, short: it ends its train
			w.closeAt(w.off)
		}
		if s.cfg.Encoder == nil {
			s.assign(now, w, n)
		} else {
			s.encode(now, w, int(lens[0]))
		}
		s.midMessage = nil
		if w.fragmentAhead() && (w.midMessage || w.Pending()) {
			s.midMessage = w
		}
	}
	s.blocked = events.ReasonNone
	s.retireFull(w)
	return events.ReasonNone
}

// retireFull retires the block of w if it is full and all its packets are assigned.
func (s *Sender) retireFull(w *Writer) {
	if w.b != nil && w.Full() && w.assigned == w.open {
		s.retire(w)
	}
}

// Abandon gives up a message of which w has written only some fragments: receivers drop its fragments, as if it had
// never been published.
func (s *Sender) Abandon(w *Writer) {
	w.midMessage = false
	if s.midMessage == w && w.assigned == w.open {
		s.midMessage = nil
		if s.blocked == events.ReasonOther {
			s.blocked = events.ReasonNone
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

func (s *Sender) block(now Instant, r events.Reason) {
	s.relieve()
	before := s.blocked
	s.blocked = r
	switch {
	case r == before:
	case r == events.ReasonFlow:
		s.stats.FlowBlocked++
		s.heartbeat.probe(now, s.rtt.value())
		s.updateStall(now) // so that the holder is known at once
	case r == events.ReasonRate:
		s.stats.RateBlocked++
	}
}

// assign gives the next n packets of w their sequences, and their runs their numbers.
func (s *Sender) assign(now Instant, w *Writer, n int) {
	from, to, seq := w.assigned, w.assigned+n, s.win.next
	offs, lens, runs := w.b.offs[from:to], w.b.lens[from:to], w.runs[w.assignedRuns:]
	for i, off := range offs {
		// A packet's runs begin before its end, those of the next packet behind it.
		end, messages := off+uint32(lens[i]), uint64(0)
		for len(runs) > 0 && runs[0].off < end {
			r := &runs[0]
			number := r.topic.next
			wire.SetRunNumber(w.b.mem[r.off:], number)
			r.topic.next = number + uint64(r.messages)
			if !r.name {
				r.topic.last = seq
			}
			if r.name || r.tracked {
				s.numbered(now, w, r, number, seq)
			}
			messages += uint64(r.messages)
			runs = runs[1:]
		}
		s.written(messages)
		seq++
	}
	w.assigned, w.assignedRuns = to, len(w.runs)-len(runs)
	s.sequence(w.b, offs, lens)
}

// encode is assign with an Encoder: it gives a sequence to one packet, made of the next packet of w and of as many
// behind it as the Encoder combines. size is the size that was admitted.
func (s *Sender) encode(now Instant, w *Writer, size int) {
	x, offs, lens := s.cfg.Encoder, w.b.offs[w.assigned:w.open], w.b.lens[w.assigned:w.open]
	n := 0
	if !w.b.plain[w.assigned] {
		n = x.Share(lens)
	}
	for i := range n {
		if w.b.plain[w.assigned+i] {
			n = i
			break
		}
	}
	runs := w.runs[w.assignedRuns:w.runsBelow(w.assigned+max(1, n))]
	for i := range runs {
		r := &runs[i]
		wire.SetRunNumber(w.b.mem[r.off:], r.topic.next)
		r.topic.next += uint64(r.messages)
	}
	var p []byte
	if n > 0 {
		p, n = x.Encode(w.b.mem, offs[:n], lens[:n])
	}
	last := w.assigned + max(1, n)
	numbered := w.runsBelow(last) - w.assignedRuns
	for _, r := range runs[numbered:] { // another writer may assign messages of the same topics first
		r.topic.next -= uint64(r.messages)
	}
	for _, l := range w.b.lens[w.assigned:last] {
		s.stats.BytesUnpacked += uint64(l)
	}
	messages := uint64(0)
	for i := range numbered {
		if !runs[i].name {
			runs[i].topic.last = s.win.next
		}
		s.numbered(now, w, &runs[i], wire.RunNumber(w.b.mem[runs[i].off:]), s.win.next)
		messages += uint64(runs[i].messages)
	}
	s.written(messages)
	if n == 0 {
		p = w.b.mem[offs[0]:][:size]
	} else {
		s.limiter.correct(size - len(p))
		s.stats.PacketsPacked++
	}
	off := w.packed * s.cfg.PacketSize
	w.packed++
	copy(w.b.mem[off:], p)
	w.assigned, w.assignedRuns = last, w.assignedRuns+numbered
	s.sequence(w.b, []uint32{uint32(off)}, []uint16{uint16(len(p))})
}

// runsBelow is how many of the writer's runs lie in its closed packets before the one of index packets.
func (w *Writer) runsBelow(packets int) int {
	n, end := w.assignedRuns, w.b.offs[packets-1]+uint32(w.b.lens[packets-1])
	for n < len(w.runs) && w.runs[n].off < end {
		n++
	}
	return n
}

// numbered records that a run in packet seq has its number.
func (s *Sender) numbered(now Instant, w *Writer, r *runRef, number, seq uint64) {
	if r.tracked {
		x := w.tracked[0]
		w.tracked = slices.Delete(w.tracked, 0, 1)
		x.Assigned(now, number, seq)
	}
	if r.name {
		w.named--
		s.topicStated(r.topic, seq)
	}
}

// written counts the messages of a complete packet.
func (s *Sender) written(messages uint64) {
	s.stats.MessagesSent += messages
	s.batches.add(s.cfg.Sink, messages)
}

// sequence gives the complete packets of b at offs their sequences.
func (s *Sender) sequence(b *block, offs []uint32, lens []uint16) {
	seq := s.win.push(len(offs))
	for i, off := range offs {
		p := b.mem[off:][:lens[i]]
		wire.SetSeq(p, seq)
		if s.cfg.Checksum {
			wire.SetChecksum(p)
		}
		e := s.win.at(seq)
		if e.queues != 0 {
			s.repairs.unqueue(e) // the slot's old packet left the window before its repair
		}
		// Set field by field: a composite literal would be built on the stack and copied.
		e.block, e.off, e.size, e.repairedAt = b.id, off, lens[i], 0
		b.last = seq
		seq++
	}
}

// retire takes the block from w when all its packets have their sequence.
func (s *Sender) retire(w *Writer) {
	s.blocks.retired.push(w.b)
	w.retiredPackets += uint64(w.assigned)
	w.b, w.assigned, w.assignedRuns, w.open, w.next, w.packed, w.ended = nil, 0, 0, 0, 0, 0, false
	clear(w.runs)
	w.runs = w.runs[:0]
}

// NextBlock retires the block of w if all its packets are assigned: the next packets begin another block, and so
// another train.
func (s *Sender) NextBlock(w *Writer) {
	if w.b != nil && !w.Pending() && w.assigned > 0 {
		s.retire(w)
	}
}

// Grant gives w a new block if it has none. It reports false if packet memory is short: a member or the transport still
// needs the oldest block.
func (s *Sender) Grant(w *Writer) bool {
	if w.b != nil {
		return true
	}
	if len(s.blocks.free) == 0 && !s.recycle() {
		return false
	}
	b := s.blocks.take()
	if !b.renew(s.cfg.Renew) {
		s.blocks.free = append(s.blocks.free, b)
		return false
	}
	w.b, s.blocks.short = b, false
	return true
}

// recycle frees the oldest retired block, if it is no longer needed.
func (s *Sender) recycle() bool {
	b := s.blocks.reusable(s.win.sent, s.flow.floor, s.out.done)
	if b == nil {
		return false
	}
	s.blocks.retired.pop()
	for ; s.win.trail <= b.last; s.win.trail++ {
		s.repairs.unqueue(s.win.at(s.win.trail)) // requested, but its memory is reused
	}
	b.reset()
	s.blocks.free = append(s.blocks.free, b)
	return true
}

// Blocked is why the last Assign stopped.
func (s *Sender) Blocked() events.Reason { return s.blocked }
