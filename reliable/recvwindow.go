package reliable

import (
	"math/bits"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// The memory of a stream's receive window, and the cursors that read it.

// Attach adds a cursor that reads the stream, which has not ended, from here on. With
// block it holds the publisher up when it is slow, as far as flow control goes;
// without, it is overtaken. It returns nil when there is no memory for a window.
func (st *Stream) Attach(block bool) *ring.Cursor {
	if !st.window() {
		return nil
	}
	switch {
	case st.log != nil:
	case st.idle != nil:
		st.log, st.idle = st.idle, nil
	default:
		st.log = ring.NewLog(st.slots, nextPow2(int(st.span)+64))
	}
	return st.log.Attach(block)
}

// Detach removes a cursor.
func (st *Stream) Detach(c *ring.Cursor) {
	st.log.Detach(c)
	if st.log.Cursors() == 0 {
		if st.log.Held() > 0 {
			st.idle = st.log
		}
		st.log = nil
		if st.orphan {
			st.freeWindow()
		}
	}
}

// letGo takes back what closed cursors still held.
func (st *Stream) letGo(now Instant) {
	l := st.log
	if l == nil {
		l = st.idle
	}
	if l == nil || l.Held() == 0 {
		return
	}
	if l.Expire(int64(now), int64(heldFor), max(1, int(st.span/8))); l.Held() == 0 {
		st.idle = nil
	}
}

// PacketData returns the runs of the packet that a cursor has leased.
func PacketData(leased []byte) []byte { return leased[wire.DataHeaderLen:] }

// Relevant reports whether the publisher has announced a topic that is wanted
// here. A publisher announces all its topics when it ends. Any goroutine may
// ask.
func (st *Stream) Relevant() bool { return st.relevant.Load() }

// Free reports whether the publisher waits for nobody: a cursor that is pinned
// would hold up its neighbours and not the publisher.
func (st *Stream) Free() bool { return st.free }

// Squeezed reports whether slow cursors have cost the stream half its window
// or more. The publisher must be told when they catch up (Receiver.Resume).
func (st *Stream) Squeezed() bool {
	return st.stalled || st.log != nil && uint64(st.log.Backlog()) >= st.span/2
}

// Full reports whether slow cursors leave no room for another packet.
func (st *Stream) Full() bool {
	return st.stalled || st.log != nil && uint64(st.log.Backlog()+st.log.Held()) >= st.span
}

// Ended reports whether the stream is over for good: nothing of it will be delivered.
func (st *Stream) Ended() bool { return st.finished }

// Span is how many packets fit the stream's window.
func (st *Stream) Span() int { return int(st.span) }

// WantTotals asks the publisher how far each topic has come: after a cursor
// was overtaken. Where nobody will answer, End or a lost publisher says so.
func (st *Stream) WantTotals() {
	switch {
	case st.finished:
	case st.down:
		st.totals.publisherLost(st)
	default:
		st.totals.loss(st)
	}
}

// Stalled reports whether a cursor holds the stream up.
func (st *Stream) Stalled() bool { return st.stalled }

func (st *Stream) cursors() int {
	if st.log == nil {
		return 0
	}
	return st.log.Cursors()
}

// leastWindow is the window that every stream can count on, in packets: half of
// the group's memory is kept for that, shared by as many streams as there may be.
// docs/protocol.md §12.2.
func (st *Stream) leastWindow() uint64 {
	c := &st.r.cfg
	return uint64(max(min(c.MemoryBytes/(2*c.MaxStreams), c.WindowBytes)/st.packetSize, minWindow))
}

// windowPackets is how many packets the stream's window may hold now: what it
// can count on, and a quarter of what is left of the rest, so that the first
// streams get the most and no later one nothing.
func (st *Stream) windowPackets() uint64 {
	c := &st.r.cfg
	least := int(st.leastWindow()) * st.packetSize
	bytes := min(c.WindowBytes, c.MemoryBytes-st.r.memory, least+max(0, st.r.shared(least)/4))
	return uint64(max(0, bytes/st.packetSize))
}

// shared is how many bytes are left of the memory that is not kept for the streams there
// may be, if each of them can count on least. Below zero it takes of theirs.
func (r *Receiver) shared(least int) int {
	return r.cfg.MemoryBytes - r.memory - least*max(0, r.cfg.MaxStreams-r.windows)
}

// reclaim takes the windows of streams that are over from cursors which have not read
// them yet, the oldest first, as far as they take of what is kept for those there are
// and may be: a publisher that restarts again and again while nobody reads takes
// nothing from others. The cursors find themselves at the end, behind a gap.
func (r *Receiver) reclaim(least int) {
	for i := 0; i < len(r.orphans) && r.shared(least) < 0; {
		st := r.orphans[i]
		if !st.log.Abandon() {
			i++ // its reader has a packet in hand
			continue
		}
		log := st.log
		st.freeWindow() // and is no orphan any more
		st.log = log    // until its cursors have seen the end
	}
}

// window makes the window at first need. Its memory comes as slots are used.
func (st *Stream) window() bool {
	if st.slots != nil {
		return true
	}
	st.r.reclaim(int(st.leastWindow()) * st.packetSize)
	span := st.windowPackets()
	if span < minWindow {
		return false
	}
	st.span = span
	st.r.memory += int(span) * st.packetSize
	st.r.windows++
	st.slots = ring.NewSlots(int(span), st.packetSize, st.r.cfg.Memory.Alloc)
	st.entries = make([]entry, nextPow2(int(span)))
	st.mask = uint64(len(st.entries) - 1)
	return true
}

// put copies packet seq into a slot, if need be one that a slow cursor loses, or the
// latest packet that waits: closed cursors may hold so many that not all of the window
// finds one, and the earliest must.
func (st *Stream) put(now Instant, seq uint64, b []byte) (uint32, bool) {
	slot, ok := st.slots.Put(b)
	if ok {
		return slot, true
	}
	switch {
	case st.log != nil:
		st.log.Reclaim()
		if slot, ok = st.slots.Put(b); !ok && st.log.Overtake(int(st.span/8)+1) {
			slot, ok = st.slots.Put(b)
		}
	case st.idle != nil:
		st.idle.Reclaim()
		slot, ok = st.slots.Put(b)
	}
	if !ok {
		if e := st.latest(seq); e != nil {
			st.lack(now, e)
			slot, ok = st.slots.Put(b)
		}
	}
	return slot, ok
}

// earn makes the window of a stream that has come so far in order that it is no
// invention: from then on the publisher is promised all of it, not just what
// every stream can count on.
func (st *Stream) earn() {
	if st.slots == nil && !st.down && len(st.r.topics) > 0 && st.next-st.start >= st.leastWindow() {
		st.window()
	}
}

// rest gives the window of a stream back that is down and holds nothing:
// publishers that went away shall not take memory from those that come.
func (st *Stream) rest() {
	if st.log == nil && st.next == st.tracked {
		st.freeWindow()
	}
}

func (st *Stream) freeWindow() {
	if st.slots == nil {
		return
	}
	st.returnLoans()
	st.r.memory -= int(st.span) * st.packetSize
	if st.orphan {
		st.r.unorphan(st)
	} else {
		st.r.windows--
	}
	for _, c := range st.slots.Chunks() {
		if c != nil {
			st.r.cfg.Memory.Free(c)
		}
	}
	st.slots, st.log, st.idle, st.entries = nil, nil, nil, nil
	st.span = st.leastWindow() // the next one may be smaller
}

// unorphan forgets an orphan that has no window any more.
func (r *Receiver) unorphan(st *Stream) {
	for i, x := range r.orphans {
		if x == st {
			r.orphans = append(r.orphans[:i], r.orphans[i+1:]...)
			return
		}
	}
}

func nextPow2(n int) int { return 1 << bits.Len(uint(n-1)) }
