package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// Reason says why no more packets got their sequence.
type Reason uint8

const (
	// ReasonNone: all have their sequence.
	ReasonNone Reason = iota
	// ReasonFlow: flow control waits for a subscriber.
	ReasonFlow
	// ReasonRate: the rate limit is reached; Deadline says until when.
	ReasonRate
	// ReasonOther: another writer is in the middle of a message.
	ReasonOther
	// ReasonMemory: the transport has not released enough packet memory.
	ReasonMemory
)

func (r Reason) String() string {
	return [...]string{"none", "flow control", "rate limit", "another writer's message", "packet memory"}[r]
}

// Assign numbers the closed packets of w, and with all the open one too, as far
// as flow control and the rate limit allow. What is left stays in w for the next Assign;
// the Reason says what it waits for. Next hands out what has its sequence.
func (s *Sender) Assign(now Instant, w *Writer, all bool) Reason {
	if !w.Pending() {
		s.retireFull(w)
		return ReasonNone // what holds another writer up goes on to hold it up
	}
	for w.b != nil && (w.assigned < w.open || all && w.packet != nil) {
		if s.midMessage != nil && s.midMessage != w {
			if s.blocked == ReasonNone {
				s.blocked = ReasonOther
			}
			return ReasonOther
		}
		size := s.cfg.padded(w.off)
		if w.assigned < w.open {
			size = int(w.b.lens[w.assigned])
		}
		if r := s.admit(now, size); r != ReasonNone {
			s.block(now, r)
			return r
		}
		if w.assigned == w.open { // the open one, short: it ends its train
			w.closeAt(w.off)
		}
		if s.packing == nil {
			s.assign(now, w, size)
		} else {
			s.pack(now, w, size)
		}
		s.midMessage = nil
		if w.fragmentAhead() && (w.midMessage || w.Pending()) {
			s.midMessage = w
		}
	}
	s.blocked = ReasonNone
	s.retireFull(w)
	return ReasonNone
}

// retireFull takes the block from w when it is full and all its packets are assigned.
func (s *Sender) retireFull(w *Writer) {
	if w.b != nil && w.Full() && w.assigned == w.open {
		s.retire(w)
	}
}

// Abandon gives up the message of which w has written only some fragments:
// subscribers drop what they have of it, as if it was never published.
func (s *Sender) Abandon(w *Writer) {
	w.midMessage = false
	if s.midMessage == w && w.assigned == w.open {
		s.midMessage = nil
		if s.blocked == ReasonOther {
			s.blocked = ReasonNone
		}
	}
}

// fragmentAhead reports whether the packet just assigned was a fragment that the
// next one continues.
func (w *Writer) fragmentAhead() bool {
	if w.assignedRuns == 0 {
		return false
	}
	r := &w.runs[w.assignedRuns-1]
	return r.messages == 0 && !r.name
}

// Busy reports whether another writer than w is in the middle of a message.
func (s *Sender) Busy(w *Writer) bool { return s.midMessage != nil && s.midMessage != w }

func (s *Sender) block(now Instant, r Reason) {
	s.relieve()
	before := s.blocked
	s.blocked = r
	switch {
	case r == before:
	case r == ReasonFlow:
		s.stats.FlowBlocked++
		s.heartbeat.probe(now, s.rtt.value())
		s.lookForStall(now) // so that it can be said at once who it is
	case r == ReasonRate:
		s.stats.RateBlocked++
	}
}

// assign gives the next packet of w its sequence, and its runs their numbers.
func (s *Sender) assign(now Instant, w *Writer, size int) {
	off := int(w.b.offs[w.assigned])
	end, messages := w.runsBelow(w.assigned+1), uint64(0)
	for w.assignedRuns < end {
		r := &w.runs[w.assignedRuns]
		number := r.topic.next
		wire.SetRunNumber(w.b.mem[r.off:], number)
		r.topic.next += uint64(r.messages)
		s.numbered(now, w, r, number)
		messages += uint64(r.messages)
		w.assignedRuns++
	}
	s.written(messages)
	w.assigned++
	s.sequence(w.b, off, size)
}

// runsBelow is how many of the writer's runs lie in its first packets, so many, which are closed.
func (w *Writer) runsBelow(packets int) int {
	n, end := w.assignedRuns, w.b.offs[packets-1]+uint32(w.b.lens[packets-1])
	for n < len(w.runs) && w.runs[n].off < end {
		n++
	}
	return n
}

// numbered notes that a run, which goes into the next packet, has its number.
func (s *Sender) numbered(now Instant, w *Writer, r *runRef, number uint64) {
	if r.request {
		s.requests.assigned(s, now, w, number, s.win.next)
	}
	if r.name {
		r.topic.nameAssigned()
	}
}

// written counts the messages of a packet that is complete.
func (s *Sender) written(messages uint64) {
	s.stats.MessagesSent += messages
	s.batches.add(s.cfg.Sink, messages)
}

// sequence gives the packet at off of b, which is complete, its sequence.
func (s *Sender) sequence(b *block, off, size int) {
	p := b.mem[off : off+size]
	seq, e := s.win.push()
	wire.SetSeq(p, seq)
	if s.cfg.Checksum {
		wire.SetChecksum(p)
	}
	if e.queues != 0 {
		s.repairs.unqueue(e) // asked for, but never sent: it has left the window
	}
	*e = windowSlot{block: b.id, off: uint32(off), size: uint16(size)}
	b.last = seq
}

// retire takes the block from w, whose packets are all assigned.
func (s *Sender) retire(w *Writer) {
	s.blocks.retired.push(w.b)
	w.retiredPackets += uint64(w.assigned)
	w.b, w.assigned, w.assignedRuns, w.open, w.next, w.packed, w.ended = nil, 0, 0, 0, 0, 0, false
	clear(w.runs)
	w.runs = w.runs[:0]
}

// Release takes the block from w, which has nothing pending and is used no more.
func (s *Sender) Release(w *Writer) {
	s.blocks.writers--
	if w.b != nil {
		s.retire(w)
	}
}

// NextBlock ends the block of w, if nothing in it is pending: the next packets begin
// another one, and a train of their own.
func (s *Sender) NextBlock(w *Writer) {
	if w.b != nil && !w.Pending() && w.assigned > 0 {
		s.retire(w)
	}
}

// Grant gives w a new block if it has none. It reports false when packet
// memory is short: the oldest block is still needed by a subscriber or by the
// transport.
func (s *Sender) Grant(w *Writer) bool {
	if w.b != nil {
		return true
	}
	if len(s.blocks.free) == 0 && !s.recycle() {
		return false
	}
	b := s.blocks.take()
	if !b.renew(s) {
		s.blocks.free = append(s.blocks.free, b)
		return false
	}
	w.b, s.blocks.short = b, false
	return true
}

// recycle frees the oldest retired block.
func (s *Sender) recycle() bool {
	b := s.blocks.reusable(s.win.sent, s.flow.floor, s.out.done)
	if b == nil {
		return false
	}
	s.blocks.retired.pop()
	for ; s.win.trail <= b.last; s.win.trail++ {
		s.repairs.unqueue(s.win.at(s.win.trail)) // asked for, but its memory goes
	}
	b.reset()
	s.blocks.free = append(s.blocks.free, b)
	return true
}

// Blocked is why the last Assign stopped.
func (s *Sender) Blocked() Reason { return s.blocked }
