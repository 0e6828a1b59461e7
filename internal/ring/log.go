package ring

import (
	"slices"
	"sync/atomic"
)

// Kind says what an item of a Log is.
type Kind uint8

const (
	// KindPacket is one packet of the stream.
	KindPacket Kind = iota
	// KindGap stands for Count packets that were lost for good.
	KindGap
	// KindNote carries a note of the producer, whose meaning is the
	// producer's, at its position in the order.
	KindNote
	// KindEnd is the last item of a log. Count packets from Seq on were lost
	// with it.
	KindEnd
)

// Item is one entry of a Log.
type Item struct {
	Seq uint64 // of the packet, or the first one of the gap
	// Skipped is how many items before this one the cursor was overtaken by.
	Skipped uint64
	Count   uint64 // packets lost (KindGap)
	Note    any    // KindNote only; nil otherwise
	Kind    Kind
	Cause   uint8 // why, for KindGap and KindEnd: the producer's code
}

// entry is an item in the ring: small, because each cache line of them goes from
// the producer's processor to the cursors' and back.
type entry struct {
	seq   uint64
	slot  uint32
	size  uint16 // bytes: a packet has fewer than 64 KiB
	kind  Kind
	cause uint8
}

// extra is what an entry has no room for: of a gap, or a note.
type extra struct {
	count uint64
	note  any
}

// Log is a ring of items with one producer, the loop, and any number of
// cursors in goroutines of their own. Items of the producer are published by
// the atomic head; the memory of an item is given back when all cursors have
// passed it.
//
// A cursor that is pinned (Block) holds the producer up; one that is not is
// overtaken when the log is full, and finds itself further on.
type Log struct {
	slots *Slots
	mask  uint64
	ring  []entry
	rare  []extra // as long as ring, made when the first is needed: before its entry is published
	end   atomic.Pointer[Item]
	_     [64]byte      // cursors read what is above all the time
	head  atomic.Uint64 // items below are readable
	_     [64]byte

	tail        uint64       // loop only: items below have been given back
	cursors     []*Cursor    // loop only: all
	active      []*Cursor    // loop only: those that are not parked, and some that are
	heldPackets []heldPacket // loop only
}

// NewLog returns a log of capacity items, a power of two, over slots.
func NewLog(slots *Slots, capacity int) *Log {
	if capacity <= 0 || capacity&(capacity-1) != 0 {
		panic("ring: capacity of a log must be a power of two")
	}
	return &Log{slots: slots, mask: uint64(capacity - 1), ring: make([]entry, capacity)}
}

// Slots are where its packets lie.
func (l *Log) Slots() *Slots { return l.slots }

// Head is the position of the item that is appended next. Loop only.
func (l *Log) Head() uint64 { return l.head.Load() }

// Cursors is the number of cursors. Loop only.
func (l *Log) Cursors() int { return len(l.cursors) }

// Backlog is how many items the slowest pinned cursor has still to read. Loop
// only.
func (l *Log) Backlog() int {
	head, lowest := l.head.Load(), l.head.Load()
	for _, c := range l.active {
		if c.block && !c.Parked() {
			lowest = min(lowest, c.position())
		}
	}
	return int(head - lowest)
}

// Room reports whether an item can be appended, after giving back what all
// cursors have read and overtaking the cursors that are not pinned. Loop only.
func (l *Log) Room() bool {
	head := l.head.Load()
	if head-l.tail < uint64(len(l.ring)) {
		return true
	}
	l.Reclaim()
	if head-l.tail < uint64(len(l.ring)) {
		return true
	}
	// Overtake by an eighth of the ring at once, so that a slow cursor is
	// pushed seldom and sees one long gap, not many short ones.
	return l.Overtake(len(l.ring)/8 + 1)
}

// Overtake moves the cursors that are not pinned forward until n more items
// are free, or as many as pinned cursors allow. It reports whether any became
// free. Loop only.
func (l *Log) Overtake(n int) bool {
	target := min(l.tail+uint64(n), l.head.Load())
	l.dropParked()
	for _, c := range l.active {
		if c.block {
			target = min(target, c.position())
		}
	}
	if target <= l.tail {
		return false
	}
	for _, c := range l.active {
		if !c.block && !c.Parked() {
			l.push(c, target)
		}
	}
	before := l.tail
	l.Reclaim()
	return l.tail > before
}

// push moves c to target at least. The packet that c is reading right now keeps
// its slot until c lets go of it.
func (l *Log) push(c *Cursor, target uint64) {
	if c.skipTo.Load() < target {
		c.skipTo.Store(target)
	}
	if c.position() < target {
		c.passed.Store(true)
	}
	for {
		s := c.state.Load()
		pos := s >> stateBits
		switch {
		case pos >= target || s&stateMask == reading:
			return // a reader is between two instructions: it holds its item this time
		case s&stateMask == leased:
			l.keepAlive(c, pos)
			return
		case c.state.CompareAndSwap(s, target<<stateBits):
			return
		}
	}
}

// Reclaim gives back the slots of all items that every cursor has passed.
// Loop only.
func (l *Log) Reclaim() {
	lowest := l.head.Load()
	l.dropParked()
	for _, c := range l.active {
		lowest = min(lowest, l.holds(c))
	}
	for ; l.tail < lowest; l.tail++ {
		switch it := &l.ring[l.tail&l.mask]; {
		case it.kind == KindNote:
			l.rare[l.tail&l.mask].note = nil
		case it.kind == KindPacket && !l.isHeld(l.tail):
			l.slots.Release(it.slot)
		}
	}
	if len(l.heldPackets) > 0 {
		l.freeReturned()
	}
}

// holds is the lowest item that c still needs, its leased packet aside if c
// was overtaken.
func (l *Log) holds(c *Cursor) uint64 {
	s := c.state.Load()
	pos := s >> stateBits
	skip := c.skipTo.Load()
	if s&stateMask == reading || skip <= pos {
		return pos
	}
	if s&stateMask == leased {
		l.keepAlive(c, pos)
	}
	return skip
}

// AppendPacket publishes the packet in slot. The caller has asked Room. Loop
// only, as all appends.
func (l *Log) AppendPacket(seq uint64, slot uint32, size int) {
	l.append(entry{kind: KindPacket, seq: seq, slot: slot, size: uint16(size)})
}

// AppendGap publishes a gap.
func (l *Log) AppendGap(first, count uint64, cause uint8) {
	l.appendRare(entry{kind: KindGap, seq: first, cause: cause}, extra{count: count})
}

// AppendNote publishes a note of the producer at sequence seq.
func (l *Log) AppendNote(seq uint64, note any) {
	l.appendRare(entry{kind: KindNote, seq: seq}, extra{note: note})
}

// End publishes the end of the log: cursors find it behind the last item. It
// needs no room. count packets from seq on never came into the log.
func (l *Log) End(seq, count uint64, cause uint8) {
	l.end.CompareAndSwap(nil, &Item{Kind: KindEnd, Seq: seq, Count: count, Cause: cause})
	l.wakeAll()
}

// Abandon moves all cursors to the end, of a log that has one, so that its slots'
// memory can go. It reports false when somebody still looks at a packet. Loop only.
func (l *Log) Abandon() bool {
	l.Reclaim()
	if l.end.Load() == nil || len(l.heldPackets) > 0 {
		return false
	}
	for _, c := range l.cursors {
		if c.state.Load()&stateMask != 0 {
			return false
		}
	}
	head := l.head.Load()
	for _, c := range l.cursors {
		// As in push: a reader that comes in between sees skipTo and lets go.
		c.skipTo.Store(head)
		s := c.state.Load()
		if s&stateMask != 0 || !c.state.CompareAndSwap(s, head<<stateBits) {
			return false
		}
	}
	return true
}

func (l *Log) append(e entry) {
	head := l.head.Load()
	if head-l.tail >= uint64(len(l.ring)) {
		panic("ring: append to a full log")
	}
	l.ring[head&l.mask] = e
	l.head.Store(head + 1)
}

func (l *Log) appendRare(e entry, x extra) {
	l.wakeAll() // all read these
	if l.rare == nil {
		l.rare = make([]extra, len(l.ring))
	}
	l.rare[l.head.Load()&l.mask] = x
	l.append(e)
}

// Attach adds a cursor at the head: it reads what is appended from now on, until it
// is parked. A cursor with block holds the producer up. Loop only.
func (l *Log) Attach(block bool) *Cursor {
	c := &Cursor{log: l, block: block}
	head := l.head.Load()
	c.state.Store(head << stateBits)
	c.skipTo.Store(head)
	c.next = head
	l.cursors = append(l.cursors, c)
	l.list(c)
	return c
}

// Detach removes a cursor. A packet that it has leased keeps its slot until the
// cursor returns it, or Expire does not wait for that any longer. Loop only.
func (l *Log) Detach(c *Cursor) {
	if s := c.state.Load(); s&stateMask == leased {
		l.keepAlive(c, s>>stateBits)
	}
	l.detached(c)
	l.cursors = without(l.cursors, c)
	l.active = without(l.active, c)
	l.Reclaim()
}

func without(list []*Cursor, c *Cursor) []*Cursor {
	if i := slices.Index(list, c); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// A cursor's state is its position and what its goroutine is doing: nothing
// (the producer may move it), reading (copying the item: the producer must
// leave the item alone for these few instructions), or leased (using the
// packet: the producer may overwrite the item, but not reuse the slot).
const (
	reading   = 1
	leased    = 2
	stateBits = 2
	stateMask = 1<<stateBits - 1
)

// Cursor reads a Log, in one goroutine.
type Cursor struct {
	log     *Log
	block   bool
	item    Item          // the leased one
	next    uint64        // the reader's own: position of the item behind it
	resumed atomic.Uint64 // where it began to count again after it was last parked
	mode    atomic.Uint32 // whether it counts: see Park
	wanted  atomic.Uint64 // it has to read all items below
	listed  bool          // loop only: it is among Log.active
	onWake  func()        // loop only: OnWake
	state   atomic.Uint64 // position<<stateBits | reading, leased or 0
	skipTo  atomic.Uint64 // the producer has overtaken all below
	ended   atomic.Bool   // the end was leased
	passed  atomic.Bool   // see Overtaken
	_       [64]byte      // the next object must not share the line
}

// Position is the item that the cursor reads, or reads next, counted from the log's
// beginning.
func (c *Cursor) Position() uint64 { return max(c.position(), c.skipTo.Load()) }

func (c *Cursor) position() uint64 { return c.state.Load() >> stateBits }

// SetBlock changes whether the cursor holds the producer up. Loop only.
func (c *Cursor) SetBlock(block bool) { c.block = block }

// Lag is how many items there are to be read.
func (c *Cursor) Lag() int {
	if c.Parked() {
		return 0
	}
	return int(c.log.head.Load() - max(c.position(), c.skipTo.Load()))
}

// Ready reports whether Lease will find an item.
func (c *Cursor) Ready() bool {
	if c.Parked() {
		return false
	}
	return max(c.position(), c.skipTo.Load()) < c.log.head.Load() || !c.ended.Load() && c.log.end.Load() != nil
}

// Lease returns the next item and holds it until Return. data is the packet
// of a KindPacket item. Both are valid until then. ok is false when there is
// no item yet.
func (c *Cursor) Lease() (it *Item, data []byte, ok bool) {
	if c.Parked() {
		return nil, nil, false
	}
	for {
		s := c.state.Load()
		if s&stateMask != 0 {
			panic("ring: cursor leased twice")
		}
		pos := s >> stateBits
		if skip := c.skipTo.Load(); skip > pos {
			c.state.CompareAndSwap(s, skip<<stateBits)
			continue
		}
		if end := c.log.end.Load(); pos >= c.log.head.Load() {
			// The end was read before the head: no item came in between.
			if end == nil || c.ended.Load() {
				return nil, nil, false
			}
			c.item = *end
			c.item.Skipped = c.skipped(pos)
			c.ended.Store(true)
			return &c.item, nil, true
		}
		if !c.state.CompareAndSwap(s, s|reading) {
			continue // overtaken just now
		}
		// The producer sets skipTo before it looks at the state. Either it sees
		// that we are reading, or we see here that it has moved us.
		if c.skipTo.Load() > pos {
			c.state.Store(s)
			continue
		}
		p := c.log.ring[pos&c.log.mask]
		var x extra
		if p.kind != KindPacket {
			x = c.log.rare[pos&c.log.mask]
		}
		c.state.Store(s | leased)
		c.item = Item{Seq: p.seq, Count: x.count, Note: x.note, Kind: p.kind, Cause: p.cause, Skipped: c.skipped(pos)}
		if p.kind == KindPacket {
			data = c.log.slots.Bytes(p.slot, int(p.size))
		}
		return &c.item, data, true
	}
}

// skipped is how many items the cursor was overtaken by since the one before that at pos.
// What passed while it was parked it did not want.
func (c *Cursor) skipped(pos uint64) uint64 {
	from := max(c.next, c.resumed.Load())
	c.next = pos + 1
	return pos - min(from, pos)
}

// Return ends the lease: the cursor goes on to the next item.
func (c *Cursor) Return() {
	if c.ended.Load() {
		return
	}
	next := max(c.position()+1, c.skipTo.Load())
	c.item.Note = nil
	c.state.Store(next << stateBits)
}
