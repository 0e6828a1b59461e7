package reliable

import (
	"github.com/fanfaremq/fanfare/internal/prefetch"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Packets are packets that a writer of the message layer fills, in a block of their own, until they get their
// sequences. They belong to one goroutine at a time, independently of the Sender: only Sender's methods need a lock on
// the stream.
//
// A packet is open from Begin to Close, closed, and assigned when Sequence gives it its sequence.
type Packets struct {
	s *Sender
	b *block // nil until granted

	open     int // index of the open packet
	next     int // offset in b at which it begins
	assigned int // packets of b with a sequence
	packed   int // packets of b as sent: fewer than assigned if some were combined

	retired uint64 // packets of earlier blocks

	ended   bool     // the block takes no more packets
	last    int32    // bytes of the last packet, without padding
	natural int32    // bytes of the last packet that the next message did not fit any more
	alike   int32    // such packets in a row with as many bytes
	_       [56]byte // keeps those of several buses on separate cache lines (TestBusesShareNoLine)
}

// NewPackets returns packets for a writer. Those for each writer after the first need memory (SenderConfig.Blocks).
func (s *Sender) NewPackets() *Packets {
	s.blocks.writers++
	return &Packets{s: s}
}

// Granted reports whether there is a block.
func (p *Packets) Granted() bool { return p.b != nil }

// Closed counts all packets that were ever closed, and Assigned those of them with a sequence.
func (p *Packets) Closed() uint64 { return p.retired + uint64(p.open) }

// Assigned: see Closed.
func (p *Packets) Assigned() uint64 { return p.retired + uint64(p.assigned) }

// Full reports whether the block has no room for a further packet.
func (p *Packets) Full() bool {
	return p.b == nil || p.ended || p.open >= p.s.blocks.perTrain || p.next+p.s.cfg.PacketSize > len(p.b.mem)
}

// Rest is how many further packets the block has room for.
func (p *Packets) Rest() int {
	if p.Full() {
		return 0
	}
	return min(p.s.blocks.perTrain-p.open, (len(p.b.mem)-p.next)/p.s.cfg.PacketSize)
}

// Begin opens the next packet of the block, which must not be Full. It returns the packet's memory, which begins with
// its header. scattered: the packet before was not written in one sequence of addresses.
func (p *Packets) Begin(scattered bool) []byte {
	size := p.s.cfg.PacketSize
	packet := p.b.mem[p.next : p.next+size : p.next+size]
	*(*[wire.DataHeaderLen]byte)(packet) = p.s.template // in place, without a call
	// A window exceeds the processor's near caches, so its memory must be fetched before it is written again: prefetch as
	// many bytes as the last packet held. In a packet with one large run the hardware prefetcher detects the sequential
	// writes; if topics alternate it does not. Memory that other processes read in place (SenderConfig.Renew) is in other
	// processors' caches, and takes longest.
	n := int(p.last)
	if n > prefetched && !scattered && p.s.cfg.Renew == nil {
		n = prefetched
	}
	prefetch.ToWrite(&packet[0], n)
	return packet
}

// prefetched is how many bytes are prefetched for a packet if the last one held a single run.
const prefetched = 2048

// Close closes the open packet with n bytes, because the next message does not fit. If trains must be equal, a packet
// that is at least half full is padded, unless the packets before had the same size, as with messages of one size. If
// packets are read in place it is padded in any case, because trains lie back to back. An emptier packet ends its train
// instead.
func (p *Packets) Close(n int) {
	held := n
	if int32(n) != p.natural {
		p.natural, p.alike = int32(n), 0
	}
	p.alike++
	if size := p.s.cfg.PacketSize; p.s.cfg.equal() && n >= size/2 &&
		(p.alike <= alikeBeforeEqual || NearlyFull(n, size) || p.s.cfg.Renew != nil) {
		clear(p.b.mem[p.next:][n:size])
		n = size
	}
	p.closeAt(n, held)
}

// CloseShort closes the open packet with n bytes although it has room: it ends its train.
func (p *Packets) CloseShort(n int) { p.closeAt(n, n) }

// NearlyFull reports whether a packet of size bytes with n bytes in it counts as full.
func NearlyFull(n, size int) bool { return n >= size*15/16 }

// alikeBeforeEqual is how many packets of one size must come before padding stops: each change of size ends a train.
const alikeBeforeEqual = 8

// closeAt closes the open packet, which holds held bytes, with n bytes, plus padding (SenderConfig.Pad).
func (p *Packets) closeAt(n, held int) {
	p.last = int32(held)
	size := p.s.cfg.padded(n)
	if n < size {
		clear(p.b.mem[p.next:][n:size])
	}
	p.b.offs[p.open], p.b.lens[p.open] = uint32(p.next), uint16(size)
	p.open++
	p.next += p.s.cfg.slot(size)
}

// Wasteful reports whether closing a packet with n bytes wastes space. A packet less than half full would end its train
// where a train's packets must be equal, and padding may fill an eighth of a packet or more.
func (p *Packets) Wasteful(n int) bool {
	c := &p.s.cfg
	size := c.PacketSize
	return c.equal() && n < size/2 || n < size-size/8 && c.Pad > 1 && c.padded(n) == size
}

// EndBlock adds no more packets to the block.
func (p *Packets) EndBlock() { p.ended = p.b != nil }

// Waiting returns the block's memory, and where in it the closed packets without a sequence lie.
func (p *Packets) Waiting() (mem []byte, offs []uint32, lens []uint16) {
	if p.b == nil {
		return nil, nil, nil
	}
	return p.b.mem, p.b.offs[p.assigned:p.open], p.b.lens[p.assigned:p.open]
}

// At returns where the open packet begins, as an offset in the block.
func (p *Packets) At() int { return p.next }

// Admit returns how many of the closed packets of p may get their sequences now, as far as flow control and the rate
// limit allow; if there is none, whether the open one of size bytes may. If it is none, it returns the reason. Packets
// that are Packed are admitted one by one: they may be combined into one.
func (s *Sender) Admit(now Instant, p *Packets, size int) (int, events.Reason) {
	lens := p.b.lens[p.assigned:p.open]
	switch {
	case len(lens) == 0:
		lens = []uint16{uint16(s.cfg.padded(size))}
	case s.cfg.Packed:
		lens = lens[:1]
	}
	n, why := s.admit(now, lens)
	if n == 0 {
		s.block(now, why)
	}
	return n, why
}

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

// SetBlocked sets the reason that Blocked returns: ReasonNone when all packets that may get a sequence have one.
func (s *Sender) SetBlocked(r events.Reason) { s.blocked = r }

// Sequence gives the next n closed packets, which were admitted, their sequences.
func (s *Sender) Sequence(p *Packets, n int) {
	from, to := p.assigned, p.assigned+n
	p.assigned = to
	s.sequence(p.b, p.b.offs[from:to], p.b.lens[from:to])
}

// SequencePacked gives a sequence to packet b, which replaces the next n closed packets, where the first of them was
// admitted. Nil: that packet is sent as it is. The result is stored at or before its memory: packets stay in the order
// of their sequences in their block.
func (s *Sender) SequencePacked(p *Packets, n int, b []byte) {
	off, size := p.b.offs[p.assigned], int(p.b.lens[p.assigned])
	for _, l := range p.b.lens[p.assigned:][:n] {
		s.stats.BytesUnpacked += uint64(l)
	}
	if b == nil {
		b = p.b.mem[off:][:size]
	} else {
		s.limiter.correct(size - len(b))
		s.stats.PacketsPacked++
	}
	to := p.packed * s.cfg.PacketSize
	copy(p.b.mem[to:], b)
	p.packed++
	p.assigned += n
	s.sequence(p.b, []uint32{uint32(to)}, []uint16{uint16(len(b))})
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

// Retire takes the block from p when all packets of p have their sequences: with full only if it is full, otherwise if
// it has packets. It reports whether it took the block.
func (s *Sender) Retire(p *Packets, full bool) bool {
	if full && !p.Full() || !full && p.assigned == 0 {
		return false
	}
	s.blocks.retired.push(p.b)
	p.retired += uint64(p.assigned)
	p.b, p.assigned, p.open, p.next, p.packed, p.ended = nil, 0, 0, 0, 0, false
	return true
}

// Grant gives p a new block if it has none. It reports false if packet memory is short: a member or the transport still
// needs the oldest block.
func (s *Sender) Grant(p *Packets) bool {
	if p.b != nil {
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
	p.b, s.blocks.short = b, false
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

// Blocked is why the last packet was not admitted, or what SetBlocked set since.
func (s *Sender) Blocked() events.Reason { return s.blocked }
