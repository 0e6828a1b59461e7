package ring

import "sync/atomic"

// A cursor's state is its position and the activity of its goroutine: none (the producer may move the cursor), reading
// (copying the item: the producer must not overwrite the item during these few instructions), or leased (using the
// packet: the producer may overwrite the item, but not reuse the slot).
const (
	reading   = 1
	leased    = 2
	stateBits = 2
	stateMask = 1<<stateBits - 1
)

// Cursor reads a Log. Only one goroutine uses it, except where stated otherwise.
type Cursor struct {
	log     *Log
	block   bool
	item    Item          // the leased item
	next    uint64        // reader only: position after the leased item
	carried uint64        // reader only: items skipped before it parked, reported with the next item
	resumed atomic.Uint64 // where it started to count again after it was parked
	mode    atomic.Uint32 // whether it counts: see Park
	wanted  atomic.Uint64 // it must read all items below this position
	listed  bool          // loop only: it is in Log.active
	onWake  func()        // loop only: OnWake
	state   atomic.Uint64 // position<<stateBits | reading, leased or 0
	skipTo  atomic.Uint64 // the producer has overtaken all items below this position
	ended   atomic.Bool   // the end was leased
	passed  atomic.Bool   // see Overtaken
	_       [64]byte      // keeps the next object off the cache line
}

// Position returns the position of the item that the cursor reads, or reads next, from the beginning of the log.
func (c *Cursor) Position() uint64 { return max(c.position(), c.skipTo.Load()) }

func (c *Cursor) position() uint64 { return c.state.Load() >> stateBits }

// SetBlock sets whether the cursor blocks the producer. Loop only.
func (c *Cursor) SetBlock(block bool) { c.block = block }

// Lag returns the number of unread items.
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

// Lease returns the next item and holds it until Return. data is the packet of an item without a note. Both are valid
// until Return. ok is false if there is no item yet.
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
			// The end was read before the head, so no item was added in between.
			if end == nil || c.ended.Load() {
				return nil, nil, false
			}
			c.item = *end
			c.item.Skipped = c.skipped(pos)
			c.ended.Store(true)
			return &c.item, nil, true
		}
		if !c.state.CompareAndSwap(s, s|reading) {
			continue // the producer has just overtaken it
		}
		// The producer sets skipTo before it reads the state. So either it sees that the cursor is reading, or the cursor
		// sees here that it was moved.
		if c.skipTo.Load() > pos {
			c.state.Store(s)
			continue
		}
		t := c.log.table.Load() // loaded after head, so it has this item
		p := *t.at(pos)
		var note any
		if p.note {
			note = *t.note(pos)
		}
		c.state.Store(s | leased)
		c.item = Item{Seq: p.seq, Note: note, Skipped: c.skipped(pos)}
		if !p.note {
			data = c.log.slots.Bytes(p.slot, int(p.size))
		}
		return &c.item, data, true
	}
}

// skipped returns the number of items between the previous item and that at pos, by which the producer has overtaken
// the cursor. Items during the time in which it was parked do not count.
func (c *Cursor) skipped(pos uint64) uint64 {
	from := max(c.next, c.resumed.Load())
	carried := c.carried
	c.next, c.carried = pos+1, 0
	return carried + pos - min(from, pos)
}

// Return ends the lease: the cursor moves to the next item.
func (c *Cursor) Return() {
	if c.ended.Load() {
		return
	}
	next := max(c.position()+1, c.skipTo.Load())
	c.item.Note = nil
	c.state.Store(next << stateBits)
}
