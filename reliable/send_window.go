package reliable

// The memory of a stream's send window. It has as many blocks as were needed so far: the
// owner adds some when Wants says that otherwise the oldest packets would go, and may take
// some back where others need them more.

// AddMemory adds mem, cut into blocks, to the packet memory: for a larger window, or for a
// further Writer.
func (s *Sender) AddMemory(mem []byte) {
	size := s.perBlock * s.cfg.PacketSize
	for ; len(mem) >= size; mem = mem[size:] {
		b := &block{mem: mem[:size:size]}
		if n := len(s.unused); n > 0 {
			b.id, s.unused = s.unused[n-1], s.unused[:n-1]
			s.blocks[b.id] = b
		} else {
			b.id = uint32(len(s.blocks))
			s.blocks = append(s.blocks, b)
		}
		s.free = append(s.free, b)
	}
	s.growIndex(min(s.cfg.WindowPackets, nextPow2(s.Blocks()*s.perBlock)))
}

// Blocks is how many blocks the window and its writers have.
func (s *Sender) Blocks() int { return len(s.blocks) - len(s.unused) }

// Wants reports whether a further block would keep packets that a Grant now would take from
// the window, or would have to wait for: it is smaller than it may be.
func (s *Sender) Wants() bool { return len(s.free) == 0 && s.Larger() }

// Larger reports whether the window may be larger than it is.
func (s *Sender) Larger() bool {
	return s.Blocks() < s.cfg.Blocks()-stageBlocks+writerBlocks*max(0, s.writers-1)
}

// GiveBack returns the memory of the oldest block of the window, if nobody needs it, for
// another stream to use. It returns nil when there is none, or no more than a stream needs.
func (s *Sender) GiveBack() []byte {
	if s.Blocks() <= s.cfg.LeastBlocks()-stageBlocks+writerBlocks*max(0, s.writers-1) || len(s.free) == 0 && !s.recycle() {
		return nil
	}
	n := len(s.free) - 1
	b := s.free[n]
	s.free = s.free[:n]
	s.blocks[b.id] = nil
	s.unused = append(s.unused, b.id)
	return b.mem
}

// growIndex makes room in the index for n packets, a power of two.
func (s *Sender) growIndex(n int) {
	if n <= len(s.index) {
		return
	}
	old, oldMask := s.index, s.mask
	s.index, s.mask = make([]windowSlot, n), uint64(n-1)
	for seq := s.trail; seq < s.next; seq++ {
		s.index[seq&s.mask] = old[seq&oldMask]
	}
}

// Short says that a Writer has no block, and there is no more memory: where that is because
// a subscriber lacks the oldest packets, flow control holds the publisher up.
func (s *Sender) Short(now Instant) {
	b := s.retired.peek()
	if b == nil || b.last >= s.sent || b.last < s.flow.floor {
		return // the transport still reads it
	}
	s.full, s.oldest = true, b.last
	s.block(now, ReasonFlow)
	s.lookForStall(now)
}

// relieve notes that the oldest packets are not lacked any more.
func (s *Sender) relieve() {
	if s.full && s.flow.floor > s.oldest {
		if s.full = false; s.blocked == ReasonFlow {
			s.blocked = ReasonNone
		}
	}
}
