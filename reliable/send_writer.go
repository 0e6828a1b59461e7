package reliable

import (
	"encoding/binary"
	"errors"

	"github.com/fanfaremq/fanfare/internal/prefetch"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// ErrMessageTooLarge says that a message exceeds the protocol's limit of 16 MiB.
var ErrMessageTooLarge = errors.New("message is too large")

// Writer packs messages into packets, in a block of its own. It belongs to one goroutine at a time, apart from the
// Sender: writing needs no lock on the stream, only Assign and Grant do.
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
	next         int      // where in b it begins
	assigned     int      // packets of b that have their sequence
	runs         []runRef // of all packets of b, in order
	assignedRuns int      // of them, those that are numbered

	retiredPackets uint64 // packets of the blocks before this one

	packed int // packets of b as they are sent: fewer than assigned where some share one

	ended      bool  // the block takes no more
	midMessage bool  // some, but not all, fragments of a message are written
	mixed      bool  // the last packet held several runs
	last       int32 // its bytes, before it was padded
	natural    int32 // those of the last packet that ended because the next message did not fit
	alike      int32 // such packets in a row that had as many
	begun      int32 // how many runs there were when the open packet was begun

	requests []*Request // that were written and have no sequence yet, the oldest first
}

// Tail is the open run of a Writer and what is free behind it. It is apart so that
// a message that goes on with the run, as nearly all do, costs no call.
type Tail struct {
	packet   []byte // the open packet's memory
	off      int    // bytes in the packet
	messages uint32 // in the run
}

// Append makes msg part of the run. It reports false when there is no room, or no run: then
// Writer.Append does it. With copies of the fields the compiler knows what it need not check.
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

// addAll makes messages part of the run, as many of msgs as there is room for. It returns how many.
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

// NewWriter returns a writer on s.
func (s *Sender) NewWriter() *Writer {
	s.blocks.writers++
	return &Writer{s: s, runs: make([]runRef, 0, s.blocks.perTrain)}
}

// Pending reports whether the writer has messages in packets without a sequence.
func (w *Writer) Pending() bool { return w.b != nil && (w.open > w.assigned || w.packet != nil) }

// Begun counts the packets that the writer has ever put something into, and Assigned those of them that have their
// sequence: what was written before some moment has its sequence when Assigned has reached what Begun was then.
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
func (w *Writer) Full() bool {
	return w.b == nil || w.ended || w.open >= w.s.blocks.perTrain || w.next+w.s.cfg.PacketSize > len(w.b.mem)
}

// Rest is how many packets the block has room for.
func (w *Writer) Rest() int {
	if w.Full() {
		return 0
	}
	return min(w.s.blocks.perTrain-w.open, (len(w.b.mem)-w.next)/w.s.cfg.PacketSize)
}

// Goes reports whether the open run is of t: then Tail.Append may do.
func (w *Writer) Goes(t *Topic) bool { return w.topic == t }

// Append adds msg to topic t, in fragments where that is better (Writer.splits). It reports
// false, and changes nothing that matters, when the block has no room for all of it: Assign,
// Grant, try again. A message above MaxInBlock bytes never has, and needs AppendFragment.
func (w *Writer) Append(t *Topic, msg []byte) bool {
	return w.topic == t && w.Tail.Append(msg) || w.appendRun(t, msg, 0)
}

// AppendAll is Append of msgs in order, as many as the block has room for. It returns how many.
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

// appendRun is Append of a message that begins a run with flags.
func (w *Writer) appendRun(t *Topic, msg []byte, flags wire.RunFlags) bool {
	if t.naming.missing(w) && !w.name(t) {
		return false
	}
	n := wire.RunHeaderLen + wire.MessageHeaderLen + len(msg)
	if w.splits(n) {
		return w.appendWhole(t, msg, flags)
	}
	if w.packet == nil || w.topic == t || w.off+n > w.s.cfg.PacketSize {
		if !w.further() {
			return false
		}
	}
	w.endRun()
	w.packet = w.packet[:w.s.cfg.PacketSize]
	wire.PutRun(w.packet[w.off:w.off+n], t.ID, msg)
	wire.SetRunFlags(w.packet[w.off:], flags)
	w.runs = append(w.runs, runRef{})
	// Field by field: a value made on the stack first would be copied as a whole, for which
	// the processor waits until all stores before it are done, those to cold memory too.
	r := &w.runs[len(w.runs)-1]
	r.topic, r.off, r.messages = t, w.at(), 1
	w.run, w.topic, w.messages = w.off, t, 1
	w.off += n
	return true
}

// further goes on in the next packet. It reports false when there is no room for one.
func (w *Writer) further() bool {
	if w.packet != nil {
		w.close()
	}
	if w.Full() {
		return false
	}
	w.begin()
	return true
}

// endRun completes the header of the open run, which says that there is one message in it.
func (w *Writer) endRun() {
	if w.topic != nil && w.messages > 1 {
		w.runs[len(w.runs)-1].messages = uint16(w.messages)
		wire.SetRunLength(w.packet[w.run:], w.off-w.run-wire.RunHeaderLen)
	}
	w.topic, w.messages = nil, 0
}

// seal leaves Tail no room: what the open packet ends with is no run that goes on.
func (w *Writer) seal() { w.packet = w.packet[:w.off] }

// at is where in the block the open packet goes on.
func (w *Writer) at() uint32 { return uint32(w.next + w.off) }

// begin opens the next packet of the block.
func (w *Writer) begin() {
	size := w.s.cfg.PacketSize
	w.packet = w.b.mem[w.next : w.next+size : w.next+size]
	*(*[wire.DataHeaderLen]byte)(w.packet) = w.s.template // without a call
	w.off, w.topic, w.begun = wire.DataHeaderLen, nil, int32(len(w.runs))
	// A window is larger than the near caches, so that its memory has left them when it is written again: the
	// processor fetches as many bytes as the last packet held. A large packet with a single run is written line after
	// line, which it notices by itself; where topics take turns it does not. Memory that other processes read in place
	// (SenderConfig.Renew) is in their processors' caches, and takes longest to come.
	n := int(w.last)
	if n > prefetched && !w.mixed && w.s.cfg.Renew == nil {
		n = prefetched
	}
	prefetch.ToWrite(&w.packet[0], n)
}

// prefetched is how many bytes of a packet with a single run are fetched when it is begun.
const prefetched = 2048

// close ends the open packet. Where trains must be equal a packet that is at least half full is padded, unless its
// predecessors had just its size: messages of one size then make equal packets by themselves. Where packets are read in
// place it is padded anyway: trains lie back to back. An emptier one ends its train instead.
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

// nearlyFull reports whether a packet of size bytes with n in it counts as full.
func nearlyFull(n, size int) bool { return n >= size*15/16 }

// alikeBeforeEqual is how many packets of one size convince: each change of size ends a train.
const alikeBeforeEqual = 8

// closeAt ends the open packet with n bytes, or as many as it is padded to.
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
