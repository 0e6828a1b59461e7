package reliable

import "github.com/fanfaremq/fanfare/pubsub/events"

// sendWindow says where the packets lie that can be repaired, and how far the stream has come.
//
//	trail ────────► sent ────────► next ──────► what writers have begun
//	      repairable     assigned, to be transmitted
//
// It has room for as many packets as its memory, and grows with it: the owner adds some when Wants says that otherwise
// the oldest packets would go, and may take some back where others need them more.
type sendWindow struct {
	index []windowSlot // where each packet lies, by sequence & mask
	mask  uint64
	trail uint64 // oldest packet that can be repaired
	next  uint64 // sequence of the next packet to be assigned
	sent  uint64 // all below were transmitted once
}

// windowSlot says where the packet of a sequence lies.
type windowSlot struct {
	block      uint32
	off        uint32
	size       uint16
	again      bool    // a receiver that fetches history asks for it once more
	queues     uint32  // in which a repair of it waits, as bits
	repairedAt Instant // last repair, zero if none
	lead       uint64  // at the last repair
}

// at is where packet seq of the window lies.
func (w *sendWindow) at(seq uint64) *windowSlot { return &w.index[seq&w.mask] }

// span is how many packets it has room for.
func (w *sendWindow) span() uint64 { return uint64(len(w.index)) }

// admits is how many packets from the next one on flow control, with sequences below limit admitted and none below
// floor missed, and memory let in; if none, what keeps the next one out. docs/protocol §8.1.
func (w *sendWindow) admits(limit, floor uint64) (n uint64, why events.Reason) {
	if floor < noLimit {
		limit = min(limit, floor+w.span()) // that one would push out a packet that a subscriber still misses
	}
	unsent := w.sent + w.span() // or one that was not sent at all
	switch {
	case w.next >= limit:
		return 0, events.ReasonFlow
	case w.next >= unsent:
		return 0, events.ReasonMemory
	}
	return min(limit, unsent) - w.next, events.ReasonNone
}

// room is how many packets flow control, the window and memory for so many packets admit.
func (w *sendWindow) room(limit, floor, memory uint64) uint64 {
	if floor < noLimit {
		limit = min(limit, floor+min(w.span(), memory))
	}
	if limit <= w.next {
		return 0
	}
	return limit - w.next
}

// push makes slots for the next n packets, at most as many as it has room for, which may push
// out the oldest. It returns the sequence of the first.
func (w *sendWindow) push(n int) (first uint64) {
	first = w.next
	w.next += uint64(n)
	if w.next-w.trail > w.span() {
		w.trail = w.next - w.span()
	}
	return first
}

// grow makes room for n packets, a power of two.
func (w *sendWindow) grow(n int) {
	if n <= len(w.index) {
		return
	}
	old, oldMask := w.index, w.mask
	w.index, w.mask = make([]windowSlot, n), uint64(n-1)
	for seq := w.trail; seq < w.next; seq++ {
		*w.at(seq) = old[seq&oldMask]
	}
}

// AddMemory adds mem, cut into blocks, to the packet memory: for a larger window, or for a further Writer.
func (s *Sender) AddMemory(mem []byte) {
	s.blocks.add(mem, s.blocks.perBlock*s.cfg.PacketSize)
	s.win.grow(min(s.cfg.WindowPackets, nextPow2(s.Blocks()*s.blocks.perTrain)))
}

// Blocks is how many blocks the window and its writers have.
func (s *Sender) Blocks() int { return s.blocks.count() }

// Wants reports whether a further block would keep packets that a Grant now would take from
// the window, or would have to wait for: it is smaller than it may be.
func (s *Sender) Wants() bool { return len(s.blocks.free) == 0 && s.Larger() }

// Larger reports whether the window may be larger than it is.
func (s *Sender) Larger() bool {
	return s.Blocks() < s.cfg.Blocks()-stageBlocks+s.blocks.further()
}

// GiveBack returns the memory of the oldest block of the window, if it is no longer needed, for another stream to
// use. It returns nil when there is none, or no more than a stream needs.
func (s *Sender) GiveBack() []byte {
	if s.Blocks() <= s.cfg.LeastBlocks()-stageBlocks+s.blocks.further() || len(s.blocks.free) == 0 && !s.recycle() {
		return nil
	}
	return s.blocks.giveBack()
}

// Short says that a Writer has no block, and there is no more memory: where that is because
// a subscriber misses the oldest packets, flow control holds the publisher up.
func (s *Sender) Short(now Instant) {
	if s.blocks.missed(s.win.sent, s.flow.floor) {
		s.block(now, events.ReasonFlow)
		s.lookForStall(now)
	}
}

// relieve notes that the oldest packets are not missed any more.
func (s *Sender) relieve() {
	if s.blocks.relieved(s.flow.floor) && s.blocked == events.ReasonFlow {
		s.blocked = events.ReasonNone
	}
}
