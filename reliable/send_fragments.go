package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// splits decides whether a message goes in fragments, of which n is the size as a run of its own: if no packet can hold
// that, and if the open packet, which cannot, would be left with room that costs: less than half full where a train's
// packets are to be equal, for it would end its train, or padded by an eighth or more to a full one.
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

// appendWhole adds msg in fragments, if the block has room for all of them. If another one has, this one ends: of two
// writers' messages that lie in two blocks each one would wait for the other's.
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

// endBlock has the block take no more.
func (w *Writer) endBlock() {
	if w.packet != nil {
		w.closeAt(w.off)
	}
	w.ended = w.b != nil
}

// fragmentRoom is how long a fragment the open packet has room for: 0 if it is nearly full.
func (w *Writer) fragmentRoom() int {
	size := w.s.cfg.PacketSize
	if w.packet == nil || nearlyFull(w.off, size) {
		return 0
	}
	return max(0, size-w.off-wire.RunHeaderLen-wire.FragmentHeaderLen)
}

// AppendFragment adds msg[offset:] to topic t, as much as there is room for in the open packet, or in the next one if
// that is nearly full, and returns the offset behind it. It returns the same offset when there is no room. Until the
// last fragment is written no other message may be; what follows then shares its packet.
func (w *Writer) AppendFragment(t *Topic, msg []byte, offset int) int {
	return w.appendFragment(t, msg, offset, 0)
}

func (w *Writer) appendFragment(t *Topic, msg []byte, offset int, flags wire.RunFlags) int {
	if offset == 0 && t.naming.missing(w) && !w.name(t) {
		return offset
	}
	if w.fragmentRoom() == 0 && !w.further() {
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
	w.seal()
	if w.midMessage = offset < len(msg); w.midMessage {
		w.close()
	}
	return offset
}
