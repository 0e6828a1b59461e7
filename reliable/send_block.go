package reliable

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
