package topics

import (
	"encoding/binary"
	"errors"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// ErrMessageTooLarge: a message exceeds the protocol's limit of 16 MiB.
var ErrMessageTooLarge = errors.New("message is too large")

// Writer packs messages into packets. It belongs to one goroutine at a time, independently of the Sender: writing needs
// no lock on the stream, only Assign and Grant do.
//
// A packet is open while messages are added, and closed when the next message does not fit.
type Writer struct {
	// Packets are those that it fills.
	Packets *reliable.Packets
	s       *Sender
	size    int // bytes of a full packet

	Tail         // the open run; no memory: the packet is empty
	topic *Topic // topic of the open run; nil: none
	run   int    // offset in the packet of the open run's header

	runs         []runRef // of all packets of the block, in order
	assignedRuns int      // of these, the numbered ones
	plain        []uint64 // packets of the block that are not encoded, as counted by Packets.Closed

	midMessage bool  // some, but not all, fragments of a message are written
	mixed      bool  // the last packet held several runs
	named      int32 // topic runs without a sequence
	begun      int   // number of runs when the open packet was begun

	tracked []Tracked // written messages without a sequence, the oldest first
	_       [16]byte  // keeps those of several buses on separate cache lines (TestBusesShareNoLine)
}

// runRef describes a run without a message number.
type runRef struct {
	topic    *Topic
	off      uint32 // offset of the run's header in the block
	messages uint16 // that end in the run, of 2 bytes each at least; 0 in topic runs and all fragments but the last
	name     bool   // it is a topic run
	tracked  bool   // its message is the writer's next tracked one
}

// Tracked is a message with a number and a sequence that its owner needs.
type Tracked interface {
	// Assigned: the message has this number, and the packet in which it ends this sequence.
	Assigned(now reliable.Instant, number, seq uint64)
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

// NewWriter returns a writer on s. Each one after the first needs memory (reliable.SenderConfig.Blocks).
func (s *Sender) NewWriter() *Writer {
	return &Writer{s: s, Packets: s.stream.NewPackets(), size: s.stream.PacketSize()}
}

// MaxInPacket is the longest message, in bytes, that fits one packet.
func (s *Sender) MaxInPacket() int { return wire.MaxInPacket(s.stream.PacketSize()) }

// MaxInBlock is the longest message, in bytes, that Writer.Append takes.
func (s *Sender) MaxInBlock() int {
	return max(s.MaxInPacket(), s.stream.BlockPackets()*wire.MaxFragment(s.stream.PacketSize()))
}

// Pending reports whether the writer has messages in packets without a sequence.
func (w *Writer) Pending() bool { return w.Packets.Closed() > w.Packets.Assigned() || w.packet != nil }

// Begun counts all packets that the writer has ever put something into. Everything written before some moment has a
// sequence when Packets.Assigned has reached the value of Begun at that moment.
func (w *Writer) Begun() uint64 {
	n := w.Packets.Closed()
	if w.packet != nil {
		n++
	}
	return n
}

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

// Goes reports whether the open run is of t, so that Tail.Append may add to it.
func (w *Writer) Goes(t *Topic) bool { return w.topic == t }

// Append adds msg to topic t, in fragments if that is better (Writer.splits). It reports false if the block has no room
// for all of it: call Assign and Grant, and try again. A message of more than Sender.MaxInBlock bytes needs
// AppendFragment.
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
	if w.packet == nil || w.topic == t || w.off+n > w.size {
		if !w.nextPacket() {
			return false
		}
	}
	w.endRun()
	w.packet = w.packet[:w.size]
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
	if w.Packets.Full() {
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
func (w *Writer) at() uint32 { return uint32(w.Packets.At() + w.off) }

// begin opens the next packet of the block.
func (w *Writer) begin() {
	w.packet = w.Packets.Begin(w.mixed)
	w.off, w.topic, w.begun = wire.DataHeaderLen, nil, len(w.runs)
}

// close closes the open packet, because the next message does not fit.
func (w *Writer) close() {
	n := w.endPacket()
	w.Packets.Close(n)
}

// closeShort closes the open packet although it has room.
func (w *Writer) closeShort() {
	n := w.endPacket()
	w.Packets.CloseShort(n)
}

// endPacket ends the runs of the open packet. It returns how many bytes the packet holds.
func (w *Writer) endPacket() int {
	w.endRun()
	w.mixed = len(w.runs)-w.begun > 1
	w.packet, w.topic = nil, nil
	return w.off
}

// splits decides whether a message is sent in fragments, if its own run would take n bytes. It is if no packet can hold
// the run, or if the run does not fit the open packet and closing that packet wastes space.
func (w *Writer) splits(n int) bool {
	if wire.DataHeaderLen+n > w.size {
		return true
	}
	return w.packet != nil && w.off+n > w.size && w.Packets.Wasteful(w.off)
}

// appendWhole adds msg in fragments, if the block has room for all of them. If only an empty block has, it ends this
// one: if messages of two writers each lay in two blocks, each writer would wait for the other.
func (w *Writer) appendWhole(t *Topic, msg []byte, flags wire.RunFlags) bool {
	first, packets := w.fragmentRoom(), w.Packets.Rest()
	if w.packet != nil {
		packets--
	}
	if len(msg) > first+packets*wire.MaxFragment(w.size) {
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
		w.closeShort()
	}
	w.Packets.EndBlock()
}

// fragmentRoom is the longest fragment that fits the open packet: 0 if the packet is nearly full.
func (w *Writer) fragmentRoom() int {
	if w.packet == nil || reliable.NearlyFull(w.off, w.size) {
		return 0
	}
	return max(0, w.size-w.off-wire.RunHeaderLen-wire.FragmentHeaderLen)
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
	p := w.packet[w.off:w.size]
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

// AppendAlone is Append for a message in a run of its own, with flags.
func (w *Writer) AppendAlone(t *Topic, msg []byte, flags wire.RunFlags) bool {
	w.endRun()
	if !w.appendRun(t, msg, flags) {
		return false
	}
	w.endRun()
	w.endTail()
	return true
}

// Track tracks the message that was appended last, with its last fragment.
func (w *Writer) Track(x Tracked) {
	w.runs[len(w.runs)-1].tracked = true
	w.tracked = append(w.tracked, x)
}

// UnsentMessages is the number of the writer's messages without a sequence.
func (w *Writer) UnsentMessages() (n uint64) {
	for _, r := range w.runs[w.assignedRuns:] {
		n += uint64(r.messages)
	}
	if w.packet != nil && w.topic != nil {
		n += uint64(w.messages) - uint64(w.runs[len(w.runs)-1].messages) // endRun will record these
	}
	return n
}
