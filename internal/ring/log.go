package ring

import (
	"slices"
	"sync/atomic"
)

// Item is one entry of a Log: a packet or a note of the producer.
type Item struct {
	Seq uint64 // of the packet, or set by the producer with the note
	// Skipped is the number of items before this one by which the producer has overtaken the cursor.
	Skipped uint64
	Note    any // the producer's note; nil: the item is a packet
}

// entry is an item in the ring. It is small, because its cache lines move between the processors of the producer and
// the cursors.
type entry struct {
	seq  uint64
	slot uint32
	size uint16 // bytes: a packet has fewer than 64 KiB
	note bool   // the note is in table.notes
}

// Log is a ring of items with one producer, the loop, and any number of cursors in other goroutines. The atomic head
// publishes items; the memory of an item is freed when all cursors have passed it.
//
// A pinned cursor (block) blocks the producer. Another one is overtaken when the log is full, and continues at a later
// item.
type Log struct {
	slots    *Slots
	capacity uint64
	table    atomic.Pointer[table] // replaced by the producer before it raises head
	end      atomic.Pointer[Item]
	_        [64]byte      // cursors often read the fields above
	head     atomic.Uint64 // items below are readable
	_        [64]byte

	tail        uint64       // loop only: the memory of items below was freed
	cursors     Set[*Cursor] // loop only: all
	active      []*Cursor    // loop only: those that are not parked, and some parked ones
	heldPackets []heldPacket // loop only
}

// NewLog returns a log of capacity items, a power of two, with packets in slots.
func NewLog(slots *Slots, capacity int) *Log {
	if capacity <= 0 || capacity&(capacity-1) != 0 {
		panic("ring: capacity of a log must be a power of two")
	}
	l := &Log{slots: slots, capacity: uint64(capacity)}
	l.table.Store(newTable(min(capacity, firstItems)))
	return l
}

// Slots returns the slots with its packets.
func (l *Log) Slots() *Slots { return l.slots }

// Head returns the position of the next item to append. Loop only.
func (l *Log) Head() uint64 { return l.head.Load() }

// Cursors returns the number of cursors. Loop only.
func (l *Log) Cursors() int { return l.cursors.Len() }

// Backlog returns the number of items that the slowest pinned cursor has not read. Loop only.
func (l *Log) Backlog() int {
	head, lowest := l.head.Load(), l.head.Load()
	for _, c := range l.active {
		if c.block && !c.Parked() {
			lowest = min(lowest, c.position())
		}
	}
	return int(head - lowest)
}

// AppendPacket publishes the packet in slot. The caller must have called Room. Loop only, as for all appends.
func (l *Log) AppendPacket(seq uint64, slot uint32, size int) {
	l.append(entry{seq: seq, slot: slot, size: uint16(size)})
}

// AppendNote publishes a note, which must not be nil.
func (l *Log) AppendNote(seq uint64, note any) {
	l.wakeAll() // all cursors read notes
	t := l.room()
	if t.notes == nil {
		t.notes = make([]any, len(t.entries))
	}
	*t.note(l.head.Load()) = note
	l.append(entry{seq: seq, note: true})
}

// End publishes the last note, after the last item. It needs no room.
func (l *Log) End(seq uint64, note any) {
	l.end.CompareAndSwap(nil, &Item{Seq: seq, Note: note})
	l.wakeAll()
}

func (l *Log) append(e entry) {
	head := l.head.Load()
	*l.room().at(head) = e
	l.head.Store(head + 1)
}

// room returns the table with room for the next item.
func (l *Log) room() *table {
	head, t := l.head.Load(), l.table.Load()
	switch items := head - l.tail; {
	case items >= l.capacity:
		panic("ring: append to a full log")
	case items >= uint64(len(t.entries)):
		t = t.grown(l.tail, head)
		l.table.Store(t)
	}
	return t
}

// Attach adds a cursor at the head: it reads items appended from now on, until it is parked. A cursor with block blocks
// the producer. Loop only.
func (l *Log) Attach(block bool) *Cursor {
	c := &Cursor{log: l, block: block}
	head := l.head.Load()
	c.state.Store(head << stateBits)
	c.skipTo.Store(head)
	c.next = head
	l.cursors.Add(c)
	l.list(c)
	return c
}

// Detach removes a cursor. A packet that it has leased keeps its slot until the cursor returns it, or Expire no longer
// waits for that. Loop only.
func (l *Log) Detach(c *Cursor) {
	if s := c.state.Load(); s&stateMask == leased {
		l.keepAlive(c, s>>stateBits)
	}
	l.detached(c)
	l.cursors.Remove(c)
	if i := slices.Index(l.active, c); c.listed && i >= 0 {
		l.active = slices.Delete(l.active, i, i+1)
	}
	l.Reclaim()
}
