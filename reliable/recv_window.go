package reliable

import (
	"math/bits"
	"slices"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// The memory of a stream's receive window, in which packets wait for those missing
// before them, and for readers of the output.

// recvWindow holds what waits, and knows what is missing.
type recvWindow struct {
	entries entries
	span    uint64 // packets that fit
	slots   *ring.Slots
	keeps   bool // the output keeps packets: they are delivered in slots
	history history
	state   stateJoin
	counts  streamCounts
}

// PacketData returns the runs of a packet.
func PacketData(packet []byte) []byte { return packet[wire.DataHeaderLen:] }

// Relevant reports whether the publisher has announced a topic that is wanted here. A publisher announces all its
// topics when it ends. Any goroutine may ask.
func (st *Stream) Relevant() bool { return st.topics.relevant.Load() }

// Free reports whether the publisher waits for no subscriber: a reader that is waited for
// would hold up its neighbours and not the publisher.
func (st *Stream) Free() bool { return st.life.free }

// Ended reports whether the stream is over: nothing more of it will be delivered.
func (st *Stream) Ended() bool { return st.life.finished }

// Down reports whether the publisher is lost or has ended.
func (st *Stream) Down() bool { return st.life.down }

// Span is how many packets fit the stream's window.
func (st *Stream) Span() int { return int(st.win.span) }

// WantTotals asks the publisher for the totals of all topics, after a cursor was overtaken. If there is no publisher
// to answer, the EventEnd or a lost publisher reports that.
func (st *Stream) WantTotals() {
	if !st.life.finished {
		st.totals.loss(st)
	}
}

// Stalled reports whether the output holds the stream up.
func (st *Stream) Stalled() bool { return st.stalled && !st.win.state.waits() }

// leastWindow is the window that every stream can count on, in packets: half of the group's memory is kept for that,
// shared by as many streams as there may be. docs/protocol §12.2.
func (st *Stream) leastWindow() uint64 {
	c := &st.r.cfg
	return uint64(max(min(c.MemoryBytes/(2*c.MaxStreams), c.WindowBytes)/st.packetSize, minWindow))
}

// windowPackets is how many packets the stream's window may hold now: what it can count on, and a quarter of what is
// left of the rest, so that the first streams get the most and no later one nothing.
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

// reclaim takes the windows of streams that are over from readers that have not read them yet, the oldest first, as far
// as they use memory that is kept for present and future streams: a publisher that restarts again and again without
// being read takes nothing from others. These readers find the end, after a gap.
func (r *Receiver) reclaim(least int) {
	for i := 0; i < len(r.detached) && r.shared(least) < 0; {
		st := r.detached[i]
		if !st.out.Abandon() {
			i++ // its reader has a packet in hand
			continue
		}
		st.freeWindow() // and is detached no more
	}
}

// window makes the window at first need. Its memory comes as slots are used.
func (st *Stream) window() bool {
	if st.win.slots != nil {
		return true
	}
	st.r.reclaim(int(st.leastWindow()) * st.packetSize)
	span := st.windowPackets()
	if span < minWindow {
		return false
	}
	st.win.span = span
	st.r.memory += int(span) * st.packetSize
	st.r.windows++
	st.win.slots = ring.NewSlots(int(span), st.packetSize, st.r.cfg.Memory.Alloc)
	return true
}

// put copies packet seq into a slot, if need be one that a slow reader loses, or the latest packet that waits: the
// output may hold so many that not all of the window finds one, and the earliest must.
func (st *Stream) put(now Instant, seq uint64, b []byte) (uint32, bool) {
	slot, ok := st.win.slots.Put(b)
	if ok {
		return slot, true
	}
	st.reclaimSlots()
	if slot, ok = st.win.slots.Put(b); !ok {
		if e := st.latest(seq); e != nil {
			st.reclaimSlot(now, e)
			slot, ok = st.win.slots.Put(b)
		}
	}
	return slot, ok
}

// reclaimSlots has the output give slots back, an eighth of the window at once if it must take them from slow readers.
func (st *Stream) reclaimSlots() { st.out.Reclaim(int(st.win.span/8) + 1) }

// growWindow makes the window of a stream that has come so far in order that it is no invention: from then on the
// publisher is promised all of it, not just what every stream can count on.
func (st *Stream) growWindow() {
	if st.win.slots == nil && !st.life.down && st.r.wanting() && st.next-st.start >= st.leastWindow() {
		st.window()
	}
}

// freeIfEmpty frees the window of a stream that is down and holds no packet:
// publishers that went away shall not take memory from those that come.
func (st *Stream) freeIfEmpty() {
	if !st.win.keeps && st.next == st.tracked {
		st.freeWindow()
	}
}

func (st *Stream) freeWindow() {
	if st.win.slots == nil {
		return
	}
	st.out.Abandon()
	st.returnLoans()
	st.r.memory -= int(st.win.span) * st.packetSize
	if i := slices.Index(st.r.detached, st); i >= 0 {
		st.r.detached = slices.Delete(st.r.detached, i, i+1)
	} else {
		st.r.windows--
	}
	for _, c := range st.win.slots.Chunks() {
		if c != nil {
			st.r.cfg.Memory.Free(c)
		}
	}
	st.win.slots, st.win.entries, st.win.keeps = nil, nil, false
	st.win.span = st.leastWindow() // the next one may be smaller
}

func nextPow2(n int) int { return 1 << bits.Len(uint(n-1)) }
