package reliable

// block is a contiguous piece of packet memory for the packets of one train: in slots of PacketSize, or back to
// back where trains of equal packets are cheap. A Writer fills it, Assign numbers its packets, and when all are
// assigned it is retired; it is used again when none of its packets is in the window any more.
type block struct {
	mem  []byte
	id   uint32
	offs [maxBlockPackets]uint32 // where each packet begins
	lens [maxBlockPackets]uint16 // bytes of each closed one
	last uint64                  // highest sequence in it
	post uint64                  // outbox.posted after its last transmission
}

// runRef remembers a run that has no message number yet.
type runRef struct {
	topic    *Topic
	off      uint32 // of the run's header in the block
	messages uint16 // that the run completes, of 2 bytes each at least: 0 for a fragment but the last, and for a name
	name     bool   // it is a topic run
	request  bool   // its message is the writer's next request
}

// renew makes sure that no reader uses the block, into which packets are to be written. It
// reports false if there is no memory for that.
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
