package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// splits decides whether a message is sent in fragments, if its own run would take n bytes. It is if no packet can hold
// the run, or if the run does not fit the open packet and closing that packet wastes space. A packet less than half
// full would end its train where a train's packets must be equal, and padding may fill an eighth of a packet or more.
func (w *Writer) splits(n int) bool {
	size := w.s.cfg.PacketSize
	switch {
	case wire.DataHeaderLen+n > size:
		return true
	case w.packet == nil || w.off+n <= size:
		return false
	}
	return w.s.cfg.equal() && w.off < size/2 || w.off < size-size/8 && w.s.cfg.Pad > 1 && w.s.cfg.padded(w.off) == size
}

// appendWhole adds msg in fragments, if the block has room for all of them. If only an empty block has, it ends this
// one: if messages of two writers each lay in two blocks, each writer would wait for the other.
func (w *Writer) appendWhole(t *Topic, msg []byte, flags wire.RunFlags) bool {
	first, packets := w.fragmentRoom(), w.Rest()
	if w.packet != nil {
		packets--
	}
	if len(msg) > first+packets*wire.MaxFragment(w.s.cfg.PacketSize) {
		if len(msg) <= w.s.MaxInBlock() {
			w.endBlock()
		}
		return false
	}
	for offset := 0; offset < len(msg); {
		offset = w.appendFragment(t, msg, offset, flags)
	}
	return true
}

// endBlock closes the open packet and adds no more packets to the block.
func (w *Writer) endBlock() {
	if w.packet != nil {
		w.closeAt(w.off)
	}
	w.ended = w.b != nil
}

// fragmentRoom is the longest fragment that fits the open packet: 0 if the packet is nearly full.
func (w *Writer) fragmentRoom() int {
	size := w.s.cfg.PacketSize
	if w.packet == nil || nearlyFull(w.off, size) {
		return 0
	}
	return max(0, size-w.off-wire.RunHeaderLen-wire.FragmentHeaderLen)
}

// AppendFragment adds a fragment of msg[offset:] to topic t, as long as the open packet, or the next one if that is
// nearly full, has room for. It returns the offset behind the fragment, or offset if there is no room. No other message
// may be appended before the last fragment; the next message then shares its packet.
func (w *Writer) AppendFragment(t *Topic, msg []byte, offset int) int {
	return w.appendFragment(t, msg, offset, 0)
}

func (w *Writer) appendFragment(t *Topic, msg []byte, offset int, flags wire.RunFlags) int {
	if offset == 0 && t.naming.missing(w) && !w.name(t) {
		return offset
	}
	if w.fragmentRoom() == 0 && !w.nextPacket() {
		return offset
	}
	w.endRun()
	n := min(len(msg)-offset, w.fragmentRoom())
	p := w.packet[w.off:w.s.cfg.PacketSize]
	wire.PutRunHeader(p, wire.RunFragment, wire.FragmentHeaderLen+n, t.ID, 0)
	wire.SetRunFlags(p, flags)
	wire.PutFragmentHeader(p[wire.RunHeaderLen:], len(msg), offset)
	copy(p[wire.RunHeaderLen+wire.FragmentHeaderLen:], msg[offset:offset+n])
	ref := runRef{topic: t, off: w.at()}
	w.off += wire.RunHeaderLen + wire.FragmentHeaderLen + n
	if offset += n; offset == len(msg) {
		ref.messages = 1
	}
	w.runs = append(w.runs, ref)
	w.endTail()
	if w.midMessage = offset < len(msg); w.midMessage {
		w.close()
	}
	return offset
}
