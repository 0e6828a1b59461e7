package reliable

// sendBlocks is the memory of a stream's window and its writers: as many blocks as were needed so far.
type sendBlocks struct {
	perBlock int // packets of full size a block
	perTrain int // packets a block, at most

	all     []*block // by id; nil: given back
	unused  []uint32 // ids of those given back
	free    []*block
	retired fifo // all packets assigned, oldest first
	writers int
	short   bool   // all are in use, and a subscriber misses packets of the oldest
	oldest  uint64 // the last of those
}

// add takes mem, cut into blocks of size bytes.
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

// count is how many there are.
func (x *sendBlocks) count() int { return len(x.all) - len(x.unused) }

// packet returns the packet of a slot of the window.
func (x *sendBlocks) packet(p *windowSlot) []byte {
	return x.all[p.block].mem[p.off : p.off+uint32(p.size)]
}

// take returns a free block, of which there is one.
func (x *sendBlocks) take() *block {
	n := len(x.free) - 1
	b := x.free[n]
	x.free = x.free[:n]
	return b
}

// giveBack returns the memory of a free block, of which there is one.
func (x *sendBlocks) giveBack() []byte {
	b := x.take()
	x.all[b.id] = nil
	x.unused = append(x.unused, b.id)
	return b.mem
}

// further is how many blocks there are for writers, beyond the one that each stream has.
func (x *sendBlocks) further() int { return writerBlocks * max(0, x.writers-1) }

// reusable returns the oldest block with packets that all have their sequence, if they are no longer needed: all below
// sent were transmitted, no subscriber that is waited for misses one below floor, and the transport has released done
// packets. Otherwise it returns nil.
func (x *sendBlocks) reusable(sent, floor, done uint64) *block {
	b := x.retired.peek()
	if b == nil || b.last >= sent || b.last >= floor || b.post > done {
		return nil
	}
	return b
}

// missed notes that there are no more, and reports whether that is because a subscriber
// misses packets below floor, and not because the transport still reads them.
func (x *sendBlocks) missed(sent, floor uint64) bool {
	b := x.retired.peek()
	if b == nil || b.last >= sent || b.last < floor {
		return false
	}
	x.short, x.oldest = true, b.last
	return true
}

// relieved reports whether that is over: no packet of the oldest block is missed any more.
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
