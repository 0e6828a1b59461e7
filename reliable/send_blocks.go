package reliable

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
// for equal trains. A Writer fills it, and Assign gives its packets their sequences. When all have one, the block is
// retired. It is used again when none of its packets is in the window any more.
type block struct {
	mem  []byte
	id   uint32
	offs [maxBlockPackets]uint32 // offset of each packet
	lens [maxBlockPackets]uint16 // bytes of each closed packet
	last uint64                  // highest sequence in the block
	post uint64                  // outbox.posted after its last transmission
}

// runRef describes a run without a message number.
type runRef struct {
	topic    *Topic
	off      uint32 // offset of the run's header in the block
	messages uint16 // that end in the run, of 2 bytes each at least; 0 in topic runs and all fragments but the last
	name     bool   // it is a topic run
	request  bool   // its message is the writer's next request
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

func (b *block) reset() { b.last, b.post = 0, 0 }
