package reliable

import (
	"encoding/binary"
	"errors"

	"github.com/fanfaremq/fanfare/internal/prefetch"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// ErrMessageTooLarge: a message exceeds the protocol's limit of 16 MiB.
var ErrMessageTooLarge = errors.New("message is too large")

// Writer packs messages into packets, in its own block. It belongs to one goroutine at a time, independently of the
// Sender: writing needs no lock on the stream, only Assign and Grant do.
//
// A packet is open while messages are added, closed when the next message does not fit, and assigned when Assign gives
// it its sequence.
type Writer struct {
	s *Sender
	b *block // nil until granted

	Tail         // the open run; no memory: the packet is empty
	topic *Topic // topic of the open run; nil: none
	run   int    // offset in the packet of the open run's header

	open         int      // index of the open packet
	next         int      // offset in b at which it begins
	assigned     int      // packets of b with a sequence
	runs         []runRef // of all packets of b, in order
	assignedRuns int      // of these, the numbered ones

	retiredPackets uint64 // packets of earlier blocks

	packed int // packets of b as sent: fewer than assigned if some were combined

	ended      bool  // the block takes no more packets
	midMessage bool  // some, but not all, fragments of a message are written
	mixed      bool  // the last packet held several runs
	last       int32 // bytes of the last packet, without padding
	natural    int32 // bytes of the last packet that a message did not fit any more
	alike      int32 // such packets in a row with as many bytes
	begun      int32 // number of runs when the open packet was begun
	named      int32 // topic runs without a sequence

	tracked []Tracked // written messages without a sequence, the oldest first
}

// Tail is the open run of a Writer, and the free space behind it. It is a type of its own so that Append to the open
// run, the usual case, is inlined.
type Tail struct {
	packet   []byte // memory of the open packet
	off      int    // bytes in the packet
	messages uint32 // messages in the run
}

// Append adds msg to the run. It reports false if there is no room, or no run: use Writer.Append then. Local copies of
// the fields let the compiler omit bounds checks.
func (t *Tail) Append(msg []byte) bool {
	packet, off := t.packet, t.off
	end := off + wire.MessageHeaderLen + len(msg)
	if uint(off) >= uint(end) || end > len(packet) {
		return false
	}
	p := packet[off:end]
	binary.LittleEndian.PutUint16(p, uint16(len(msg)))
	t.off = end
	t.messages++
	copy(p[wire.MessageHeaderLen:], msg)
	return true
}

// addAll adds as many of msgs to the run as there is room for. It returns how many.
func (t *Tail) addAll(msgs [][]byte) int {
	packet, off := t.packet, t.off
	n := 0
	for _, m := range msgs {
		end := off + wire.MessageHeaderLen + len(m)
		if end > len(packet) {
			break
		}
		p := packet[off:end]
		binary.LittleEndian.PutUint16(p, uint16(len(m)))
		copy(p[wire.MessageHeaderLen:], m)
		off = end
		n++
	}
	t.off = off
	t.messages += uint32(n)
	return n
}

// NewWriter returns a writer on s. Each one after the first needs memory (SenderConfig.Blocks).
func (s *Sender) NewWriter() *Writer {
	s.blocks.writers++
	return &Writer{s: s, runs: make([]runRef, 0, s.blocks.perTrain)}
}

// Pending reports whether the writer has messages in packets without a sequence.
func (w *Writer) Pending() bool { return w.b != nil && (w.open > w.assigned || w.packet != nil) }

// Begun counts all packets that the writer has ever put something into, and Assigned those of them with a sequence.
// Everything written before some moment has a sequence when Assigned has reached the value of Begun at that moment.
func (w *Writer) Begun() uint64 {
	n := w.retiredPackets + uint64(w.open)
	if w.packet != nil {
		n++
	}
	return n
}

// Assigned: see Begun.
func (w *Writer) Assigned() uint64 { return w.retiredPackets + uint64(w.assigned) }

// Waiting is the number of the writer's messages of t without a number.
func (w *Writer) Waiting(t *Topic) (n uint64) {
	for _, r := range w.runs[w.assignedRuns:] {
		if r.topic == t {
			n += uint64(r.messages)
		}
	}
	if w.topic == t {
		n += uint64(w.messages) - 1 // runs already count one message of the open run
	}
	return n
}

// Full reports whether the block has no room for a further packet.
func (w *Writer) Full() bool {
	return w.b == nil || w.ended || w.open >= w.s.blocks.perTrain || w.next+w.s.cfg.PacketSize > len(w.b.mem)
}

// Rest is how many further packets the block has room for.
func (w *Writer) Rest() int {
	if w.Full() {
		return 0
	}
	return min(w.s.blocks.perTrain-w.open, (len(w.b.mem)-w.next)/w.s.cfg.PacketSize)
}

// Goes reports whether the open run is of t, so that Tail.Append may add to it.
func (w *Writer) Goes(t *Topic) bool { return w.topic == t }

// Append adds msg to topic t, in fragments if that is better (Writer.splits). It reports false if the block has no room
// for all of it: call Assign and Grant, and try again. A message of more than MaxInBlock bytes needs AppendFragment.
func (w *Writer) Append(t *Topic, msg []byte) bool {
	return w.topic == t && w.Tail.Append(msg) || w.appendRun(t, msg, 0)
}

// AppendAll is Append for msgs in order, as many as the block has room for. It returns how many.
func (w *Writer) AppendAll(t *Topic, msgs [][]byte) int {
	n := 0
	for n < len(msgs) {
		if w.topic == t {
			if n += w.addAll(msgs[n:]); n == len(msgs) {
				break
			}
		}
		if !w.appendRun(t, msgs[n], 0) {
			break
		}
		n++
	}
	return n
}

// appendRun is Append for a message that begins a run with flags.
func (w *Writer) appendRun(t *Topic, msg []byte, flags wire.RunFlags) bool {
	if t.naming.missing(w) && !w.name(t) {
		return false
	}
	n := wire.RunHeaderLen + wire.MessageHeaderLen + len(msg)
	if w.splits(n) {
		return w.appendWhole(t, msg, flags)
	}
	if w.packet == nil || w.topic == t || w.off+n > w.s.cfg.PacketSize {
		if !w.nextPacket() {
			return false
		}
	}
	w.endRun()
	w.packet = w.packet[:w.s.cfg.PacketSize]
	wire.PutRun(w.packet[w.off:w.off+n], t.ID, msg)
	wire.SetRunFlags(w.packet[w.off:], flags)
	w.runs = append(w.runs, runRef{})
	// Set field by field: a composite literal would be built on the stack and copied. The copy waits until all earlier
	// stores are done, including those to uncached memory.
	r := &w.runs[len(w.runs)-1]
	r.topic, r.off, r.messages = t, w.at(), 1
	w.run, w.topic, w.messages = w.off, t, 1
	w.off += n
	return true
}

// nextPacket opens the next packet. It reports false if there is no room for one.
func (w *Writer) nextPacket() bool {
	if w.packet != nil {
		w.close()
	}
	if w.Full() {
		return false
	}
	w.begin()
	return true
}

// endRun completes the header of the open run, which was written for one message.
func (w *Writer) endRun() {
	if w.topic != nil && w.messages > 1 {
		w.runs[len(w.runs)-1].messages = uint16(w.messages)
		wire.SetRunLength(w.packet[w.run:], w.off-w.run-wire.RunHeaderLen)
	}
	w.topic, w.messages = nil, 0
}

// endTail leaves Tail no room, because the open packet does not end with a run that may continue.
func (w *Writer) endTail() { w.packet = w.packet[:w.off] }

// at returns where the open packet ends so far, as an offset in the block.
func (w *Writer) at() uint32 { return uint32(w.next + w.off) }

// begin opens the next packet of the block.
func (w *Writer) begin() {
	size := w.s.cfg.PacketSize
	w.packet = w.b.mem[w.next : w.next+size : w.next+size]
	*(*[wire.DataHeaderLen]byte)(w.packet) = w.s.template // in place, without a call
	w.off, w.topic, w.begun = wire.DataHeaderLen, nil, int32(len(w.runs))
	// A window exceeds the processor's near caches, so its memory must be fetched before it is written again: prefetch as
	// many bytes as the last packet held. In a packet with one large run the hardware prefetcher detects the sequential
	// writes; if topics alternate it does not. Memory that other processes read in place (SenderConfig.Renew) is in other
	// processors' caches, and takes longest.
	n := int(w.last)
	if n > prefetched && !w.mixed && w.s.cfg.Renew == nil {
		n = prefetched
	}
	prefetch.ToWrite(&w.packet[0], n)
}

// prefetched is how many bytes are prefetched for a packet if the last one held a single run.
const prefetched = 2048

// close closes the open packet. If trains must be equal, a packet that is at least half full is padded, unless the
// packets before had the same size, as with messages of one size. If packets are read in place it is padded in any
// case, because trains lie back to back. An emptier packet ends its train instead.
func (w *Writer) close() {
	n := w.off
	if int32(n) != w.natural {
		w.natural, w.alike = int32(n), 0
	}
	w.alike++
	if size := w.s.cfg.PacketSize; w.s.cfg.equal() && n >= size/2 &&
		(w.alike <= alikeBeforeEqual || nearlyFull(n, size) || w.s.cfg.Renew != nil) {
		clear(w.packet[n:size])
		n = size
	}
	w.closeAt(n)
}

// nearlyFull reports whether a packet of size bytes with n bytes in it counts as full.
func nearlyFull(n, size int) bool { return n >= size*15/16 }

// alikeBeforeEqual is how many packets of one size must come before padding stops: each change of size ends a train.
const alikeBeforeEqual = 8

// closeAt closes the open packet with n bytes, plus padding (SenderConfig.Pad).
func (w *Writer) closeAt(n int) {
	w.endRun()
	w.mixed, w.last = len(w.runs)-int(w.begun) > 1, int32(w.off)
	size := w.s.cfg.padded(n)
	if n < size {
		clear(w.b.mem[w.next:][n:size])
	}
	w.b.offs[w.open], w.b.lens[w.open] = uint32(w.next), uint16(size)
	w.open++
	w.next += w.s.cfg.slot(size)
	w.packet, w.topic = nil, nil
}

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
		offset = w.AppendFragment(t, msg, offset, flags)
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
// may be appended before the last fragment; the next message then shares its packet. All fragments have the same flags.
func (w *Writer) AppendFragment(t *Topic, msg []byte, offset int, flags wire.RunFlags) int {
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
