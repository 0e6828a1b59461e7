package reliable

import "github.com/fanfaremq/fanfare/pubsub/events"

// sendWindow locates the packets that can be repaired, and records how far the stream has come.
//
//	trail ────────► sent ────────► next ──────► what writers have begun
//	      repairable     assigned, to be transmitted
//
// Its size follows its memory: the owner adds memory when Wants reports that otherwise the oldest packets would be
// dropped, and may take it back for other streams.
type sendWindow struct {
	index []windowSlot // location of each packet, by sequence & mask
	mask  uint64
	trail uint64 // oldest packet that can be repaired
	next  uint64 // sequence of the next packet to be assigned
	sent  uint64 // all packets below were transmitted once
}

// windowSlot locates the packet of a sequence.
type windowSlot struct {
	block      uint32
	off        uint32
	size       uint16
	again      bool    // a receiver that fetches history requests it again
	queues     uint32  // repair queues in which it waits, as bits
	repairedAt Instant // last repair; 0: none
	lead       uint64  // sent at the last repair
}

// at returns the slot of packet seq.
func (w *sendWindow) at(seq uint64) *windowSlot { return &w.index[seq&w.mask] }

// span is the number of packets for which the window has slots.
func (w *sendWindow) span() uint64 { return uint64(len(w.index)) }

// admits is how many packets, from the next one on, flow control and memory admit; if none, why not. Flow control
// admits sequences below limit, while no packet from floor on leaves the window. docs/protocol §8.1.
func (w *sendWindow) admits(limit, floor uint64) (n uint64, why events.Reason) {
	if floor < noLimit {
		limit = min(limit, floor+w.span()) // the packet there would push out one that a member misses
	}
	unsent := w.sent + w.span() // the packet there would push out one that was not sent
	switch {
	case w.next >= limit:
		return 0, events.ReasonFlow
	case w.next >= unsent:
		return 0, events.ReasonMemory
	}
	return min(limit, unsent) - w.next, events.ReasonNone
}

// room is how many packets flow control, the window, and memory for memory packets admit.
func (w *sendWindow) room(limit, floor, memory uint64) uint64 {
	if floor < noLimit {
		limit = min(limit, floor+min(w.span(), memory))
	}
	if limit <= w.next {
		return 0
	}
	return limit - w.next
}

// push adds the next n packets, at most as many as the window has slots, which may push out the oldest. It returns the
// sequence of the first.
func (w *sendWindow) push(n int) (first uint64) {
	first = w.next
	w.next += uint64(n)
	if w.next-w.trail > w.span() {
		w.trail = w.next - w.span()
	}
	return first
}

// grow increases the window to n slots, a power of two.
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

// AddMemory adds mem, cut into blocks, to the packet memory, for a larger window or further Packets.
func (s *Sender) AddMemory(mem []byte) {
	s.blocks.add(mem, s.blocks.perBlock*s.cfg.PacketSize)
	s.win.grow(min(s.cfg.WindowPackets, nextPow2(s.Blocks()*s.blocks.perTrain)))
}

// Blocks is the number of blocks of the window and its writers.
func (s *Sender) Blocks() int { return s.blocks.count() }

// Wants reports whether the window may grow, and a Grant now would drop packets from it, or would have to wait.
func (s *Sender) Wants() bool { return len(s.blocks.free) == 0 && s.Larger() }

// Larger reports whether the window may be larger than it is.
func (s *Sender) Larger() bool {
	return s.Blocks() < s.cfg.Blocks()-stageBlocks+s.blocks.extraWriterBlocks()
}

// GiveBack returns the memory of the oldest block of the window, for another stream, if it is no longer needed. It
// returns nil if there is none, or no more than a stream needs.
func (s *Sender) GiveBack() []byte {
	if s.Blocks() <= s.cfg.LeastBlocks()-stageBlocks+s.blocks.extraWriterBlocks() ||
		len(s.blocks.free) == 0 && !s.recycle() {
		return nil
	}
	return s.blocks.giveBack()
}

// Short reports that a writer has no block, and that there is no more memory. If a member misses the oldest packets,
// flow control blocks the publisher from now on.
func (s *Sender) Short(now Instant) {
	if s.blocks.missed(s.win.sent, s.flow.floor) {
		s.block(now, events.ReasonFlow)
		s.updateStall(now)
	}
}

// relieve ends that state when the oldest packets are no longer missed.
func (s *Sender) relieve() {
	if s.blocks.relieved(s.flow.floor) && s.blocked == events.ReasonFlow {
		s.blocked = events.ReasonNone
	}
}

// sendBlocks is the memory of a stream's window and its writers. It grows as needed.
type sendBlocks struct {
	perBlock int // full-size packets per block
	perTrain int // maximum packets per block

	all     []*block // by id; nil: given back
	unused  []uint32 // ids of blocks given back
	free    []*block
	retired fifo // all packets assigned, oldest first
	writers int
	short   bool   // all blocks are in use, and a member misses packets of the oldest
	oldest  uint64 // highest sequence in the oldest block
}

// add adds mem, cut into blocks of size bytes.
func (x *sendBlocks) add(mem []byte, size int) {
	for ; len(mem) >= size; mem = mem[size:] {
		b := &block{mem: mem[:size:size]}
		if n := len(x.unused); n > 0 {
			b.id, x.unused = x.unused[n-1], x.unused[:n-1]
			x.all[b.id] = b
		} else {
			b.id = uint32(len(x.all))
			x.all = append(x.all, b)
		}
		x.free = append(x.free, b)
	}
}

// count is the number of blocks.
func (x *sendBlocks) count() int { return len(x.all) - len(x.unused) }

// packet returns the packet of a window slot.
func (x *sendBlocks) packet(p *windowSlot) []byte {
	return x.all[p.block].mem[p.off : p.off+uint32(p.size)]
}

// take returns a free block. There must be one.
func (x *sendBlocks) take() *block {
	n := len(x.free) - 1
	b := x.free[n]
	x.free = x.free[:n]
	return b
}

// giveBack removes a free block, and returns its memory. There must be one.
func (x *sendBlocks) giveBack() []byte {
	b := x.take()
	x.all[b.id] = nil
	x.unused = append(x.unused, b.id)
	return b.mem
}

// extraWriterBlocks is the number of blocks of writers beyond the first.
func (x *sendBlocks) extraWriterBlocks() int { return writerBlocks * max(0, x.writers-1) }

// reusable returns the oldest retired block if it is no longer needed, otherwise nil. It is needed while a packet in it
// is not below sent (not transmitted), not below floor (a member waited for misses it), or not among the done packets
// that the transport has released.
func (x *sendBlocks) reusable(sent, floor, done uint64) *block {
	b := x.retired.peek()
	if b == nil || b.last >= sent || b.last >= floor || b.post > done {
		return nil
	}
	return b
}

// missed records that no block is free. It reports whether the reason is a member that misses packets from floor on,
// and not the transport, which still reads them.
func (x *sendBlocks) missed(sent, floor uint64) bool {
	b := x.retired.peek()
	if b == nil || b.last >= sent || b.last < floor {
		return false
	}
	x.short, x.oldest = true, b.last
	return true
}

// relieved reports whether the shortage is over: no packet of the oldest block is missed any more.
func (x *sendBlocks) relieved(floor uint64) bool {
	if !x.short || floor <= x.oldest {
		return false
	}
	x.short = false
	return true
}

// fifo is a queue of blocks.
type fifo struct {
	q    []*block
	head int
}

func (f *fifo) push(b *block) {
	if f.head > 0 && len(f.q) == cap(f.q) {
		n := copy(f.q, f.q[f.head:])
		clear(f.q[n:])
		f.q, f.head = f.q[:n], 0
	}
	f.q = append(f.q, b)
}

func (f *fifo) peek() *block {
	if f.head == len(f.q) {
		return nil
	}
	return f.q[f.head]
}

func (f *fifo) pop() {
	f.q[f.head] = nil
	if f.head++; f.head == len(f.q) {
		f.q, f.head = f.q[:0], 0
	}
}

// block is a contiguous piece of packet memory for the packets of one train: in slots of PacketSize, or back to back
// for equal trains. A Writer fills it, and Sequence gives its packets their sequences. When all have one, the block is
// retired. It is used again when none of its packets is in the window any more.
type block struct {
	mem  []byte
	id   uint32
	offs [maxBlockPackets]uint32 // offset of each packet
	lens [maxBlockPackets]uint16 // bytes of each closed packet
	last uint64                  // highest sequence in the block
	post uint64                  // outbox.posted after its last transmission
}

// renew prepares the block for new packets: it replaces memory that a reader still uses. It reports false if there is
// no memory.
func (b *block) renew(by func([]byte) []byte) bool {
	if by == nil {
		return true
	}
	mem := by(b.mem)
	if mem != nil {
		b.mem = mem
	}
	return mem != nil
}

func (b *block) reset() {
	b.last, b.post = 0, 0
}
