package reliable

import (
	"encoding/binary"
	"errors"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// ErrMessageTooLarge says that a message exceeds the protocol's limit of 16 MiB.
var ErrMessageTooLarge = errors.New("message is too large")

// Writer packs messages into packets, in a block of its own. It belongs to one
// goroutine at a time, apart from the Sender: writing needs no lock on the
// stream, only Assign and Grant do.
//
// A packet is open while messages are added, closed when the next message does
// not fit, and assigned when Assign gives it its sequence.
type Writer struct {
	s *Sender
	b *block // nil until granted

	Tail         // the open run; no memory: nothing in the packet yet
	topic *Topic // of the open run; nil: none is open
	run   int    // offset of the open run's header in the packet

	open         int      // index of the open packet
	assigned     int      // packets of b that have their sequence
	runs         []runRef // of all packets of b, in order
	assignedRuns int      // of them, those that are numbered

	retiredPackets uint64 // packets of the blocks before this one

	packed int // packets of b as they are sent: fewer than assigned where some share one

	natural int // bytes of the last closed packet, before it was padded
	alike   int // packets in a row that had as many

	midMessage bool // some, but not all, fragments of a message are written

	requests []*Request // that were written and have no sequence yet, the oldest first
}

// Tail is the open run of a Writer and what is free behind it. It is apart so that
// a message that goes on with the run, as nearly all do, costs no call.
type Tail struct {
	packet   []byte // the open packet's memory
	off      int    // bytes in the packet
	messages uint32 // in the run
}

// Add makes a message of n bytes part of the run and returns its memory, which the
// caller fills at once. It returns nil when there is no room, or no run: then
// Writer.Append does it.
func (t *Tail) Add(n int) []byte {
	end := t.off + wire.MessageHeaderLen + n
	if end > len(t.packet) {
		return nil
	}
	p := t.packet[t.off:end]
	binary.LittleEndian.PutUint16(p, uint16(n))
	t.off = end
	t.messages++
	return p[wire.MessageHeaderLen:]
}

// NewWriter returns a writer on s.
func (s *Sender) NewWriter() *Writer {
	s.blocks.writers++
	return &Writer{s: s, runs: make([]runRef, 0, s.perBlock)}
}

// Pending reports whether the writer has messages whose packets have no sequence yet.
func (w *Writer) Pending() bool { return w.b != nil && (w.open > w.assigned || w.packet != nil) }

// Begun counts the packets that the writer has ever put something into, and
// Assigned those of them that have their sequence: what was written before some moment has
// its sequence when Assigned has reached what Begun was then.
func (w *Writer) Begun() uint64 {
	n := w.retiredPackets + uint64(w.open)
	if w.packet != nil {
		n++
	}
	return n
}

// Assigned: see Begun.
func (w *Writer) Assigned() uint64 { return w.retiredPackets + uint64(w.assigned) }

// Waiting is how many messages of t the writer has that have no number yet.
func (w *Writer) Waiting(t *Topic) (n uint64) {
	for _, r := range w.runs[w.assignedRuns:] {
		if r.topic == t {
			n += uint64(r.messages)
		}
	}
	if w.topic == t {
		n += uint64(w.messages) - 1 // the last run says that there is one, until it ends
	}
	return n
}

// Full reports whether the block has no room for a further packet.
func (w *Writer) Full() bool { return w.b == nil || w.open >= w.s.perBlock }

// Rest is how many packets the block has room for.
func (w *Writer) Rest() int {
	if w.b == nil {
		return 0
	}
	return w.s.perBlock - w.open
}

// Append adds msg, which fits one packet, to topic t. It reports false, and
// changes nothing that matters, when there is no room: Assign, Grant, try again. msg has
// MaxInPacket(PacketSize) bytes at most.
func (w *Writer) Append(t *Topic, msg []byte) bool {
	if w.topic == t {
		if p := w.Tail.Add(len(msg)); p != nil {
			copy(p, msg)
			return true
		}
	}
	if t.naming.missing(w) && !w.name(t) {
		return false
	}
	n := wire.RunHeaderLen + wire.MessageHeaderLen + len(msg)
	if w.packet == nil || w.topic == t || w.off+n > len(w.packet) {
		if !w.further(n) {
			return false
		}
	}
	w.endRun()
	wire.PutRun(w.packet[w.off:w.off+n], t.ID, msg)
	w.runs = append(w.runs, runRef{topic: t, off: uint32(w.open*w.s.cfg.PacketSize + w.off), messages: 1})
	w.run, w.topic, w.messages = w.off, t, 1
	w.off += n
	return true
}

// further goes on in the next packet, for a run of n bytes. It reports false when there
// is no room for one.
func (w *Writer) further(n int) bool {
	if w.packet != nil {
		w.close()
	}
	if w.Full() {
		return false
	}
	w.begin()
	if w.off+n > len(w.packet) {
		panic("reliable: Append of more than a packet")
	}
	return true
}

// endRun completes the header of the open run, which says that there is one message in it.
func (w *Writer) endRun() {
	if w.topic != nil && w.messages > 1 {
		w.runs[len(w.runs)-1].messages = w.messages
		wire.SetRunLength(w.packet[w.run:], w.off-w.run-wire.RunHeaderLen)
	}
}

// AppendFragment adds msg[offset:] to topic t, as much as one packet holds, in
// a packet of its own, and returns the offset behind it. It returns the same
// offset when there is no room. Until the last fragment is written no other
// message may be.
func (w *Writer) AppendFragment(t *Topic, msg []byte, offset int) int {
	return w.appendFragment(t, msg, offset, 0)
}

func (w *Writer) appendFragment(t *Topic, msg []byte, offset int, flags wire.RunFlags) int {
	if offset == 0 && t.naming.missing(w) && !w.name(t) {
		return offset
	}
	if w.packet != nil {
		w.close()
	}
	if w.Full() {
		return offset
	}
	w.begin()
	n := min(len(msg)-offset, wire.MaxFragment(w.s.cfg.PacketSize))
	p := w.packet
	at := wire.DataHeaderLen
	wire.PutRunHeader(p[at:], wire.RunFragment, wire.FragmentHeaderLen+n, t.ID, 0)
	wire.SetRunFlags(p[at:], flags)
	ref := runRef{topic: t, off: uint32(w.open*w.s.cfg.PacketSize + at)}
	wire.PutFragmentHeader(p[at+wire.RunHeaderLen:], len(msg), offset)
	copy(p[at+wire.RunHeaderLen+wire.FragmentHeaderLen:], msg[offset:offset+n])
	w.off = at + wire.RunHeaderLen + wire.FragmentHeaderLen + n
	if offset += n; offset == len(msg) {
		ref.messages = 1
	}
	w.midMessage = offset < len(msg)
	w.runs = append(w.runs, ref)
	w.close()
	return offset
}

// begin opens the next packet of the block.
func (w *Writer) begin() {
	lo, size := w.open*w.s.cfg.PacketSize, w.s.cfg.PacketSize
	w.packet = w.b.mem[lo : lo+size : lo+size]
	copy(w.packet, w.s.template[:])
	w.off, w.topic = wire.DataHeaderLen, nil
}

// close ends the open packet. Where trains must be equal a packet that is at
// least half full is padded, unless its predecessors had just its size: messages
// of one size then make equal packets by themselves. Where packets are read in place
// it is padded anyway: trains lie back to back. An emptier one ends its train instead.
func (w *Writer) close() {
	n := w.off
	if n != w.natural {
		w.natural, w.alike = n, 0
	}
	w.alike++
	if w.s.cfg.EqualTrains && w.s.cfg.Packer == nil && n >= len(w.packet)/2 && (w.alike <= alikeBeforeEqual || n >= len(w.packet)*15/16 || w.s.cfg.Renew != nil) {
		clear(w.packet[n:])
		n = len(w.packet)
	}
	w.closeAt(n)
}

// alikeBeforeEqual is how many packets of one size convince: each change of size
// ends a train.
const alikeBeforeEqual = 8

// closeAt ends the open packet with n bytes.
func (w *Writer) closeAt(n int) {
	w.endRun()
	w.b.lens[w.open] = uint16(n)
	w.open++
	w.packet, w.topic = nil, nil
}
