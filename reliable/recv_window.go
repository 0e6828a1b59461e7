package reliable

import (
	"math/bits"
	"slices"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Memory of a stream's receive window, in which packets wait for missing ones, and for readers of the output.

type recvWindow struct {
	entries entries
	span    uint64 // packets that fit
	slots   *ring.Slots
	keeps   bool // the output keeps packets: they are delivered in slots
	history history
	join    joining
	counts  streamCounts
}

// PacketData returns the runs of a packet.
func PacketData(packet []byte) []byte { return packet[wire.DataHeaderLen:] }

// Free reports whether the publisher waits for no member. Waiting for a slow reader would then delay other readers, not
// the publisher.
func (st *Stream) Free() bool { return st.life.free }

// Ended reports whether everything was delivered.
func (st *Stream) Ended() bool { return st.life.finished }

// Down reports whether the publisher is lost or has ended.
func (st *Stream) Down() bool { return st.life.down }

// Span is the number of packets that fit the stream's window.
func (st *Stream) Span() int { return int(st.win.span) }

// Stalled reports whether the output holds the stream up.
func (st *Stream) Stalled() bool { return st.stalled && !st.win.join.waits() }

// leastWindow is the guaranteed window of each stream, in packets: half of the group's memory, divided by the maximum
// number of streams. docs/protocol §12.2.
func (st *Stream) leastWindow() uint64 {
	c := &st.r.cfg
	return uint64(max(min(c.MemoryBytes/(2*c.MaxStreams), c.WindowBytes)/st.packetSize, minWindow))
}

// windowPackets is the maximum window of the stream now, in packets: the guaranteed one, and a quarter of the
// unreserved memory. So the first streams get the most, but later ones get some.
func (st *Stream) windowPackets() uint64 {
	c := &st.r.cfg
	least := int(st.leastWindow()) * st.packetSize
	bytes := min(c.WindowBytes, c.MemoryBytes-st.r.memory, least+max(0, st.r.shared(least)/4))
	return uint64(max(0, bytes/st.packetSize))
}

// shared is how many bytes of memory are left beyond those reserved for further streams, least each. Below zero, memory
// reserved for others is in use.
func (r *Receiver) shared(least int) int {
	return r.cfg.MemoryBytes - r.memory - least*max(0, r.cfg.MaxStreams-r.windows)
}

// reclaim frees the windows of streams that are over but not read yet, the oldest first, while they use memory reserved
// for other streams. So a publisher that restarts repeatedly without being read takes nothing from others. The readers
// of these windows find a gap and then the end.
func (r *Receiver) reclaim(least int) {
	for i := 0; i < len(r.detached) && r.shared(least) < 0; {
		st := r.detached[i]
		if !st.out.Abandon() {
			i++ // its reader is using a packet
			continue
		}
		st.freeWindow() // also removes st from detached
	}
}

// window creates the window when it is first needed. Its memory is allocated as slots are used.
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

// put copies packet seq into a slot. If none is free it takes one from a slow reader, or that of the latest waiting
// packet. The output may hold so many slots that not all packets of the window find one, and the earliest must.
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

// reclaimSlots asks the output to release slots: up to an eighth of the window if it must take them from slow readers.
func (st *Stream) reclaimSlots() { st.out.Reclaim(int(st.win.span/8) + 1) }

// growWindow creates the window of a stream that has delivered the guaranteed window in order, and so is probably not
// forged. From then on the publisher is promised the whole window.
func (st *Stream) growWindow() {
	if st.win.slots == nil && !st.life.down && st.r.wanted && st.next-st.start >= st.leastWindow() {
		st.window()
	}
}

// freeIfEmpty frees the window of a stream that is down and holds no packet: publishers that left must not keep memory
// from new ones.
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
	st.win.span = st.leastWindow() // the next window may be smaller
}

func nextPow2(n int) int { return 1 << bits.Len(uint(n-1)) }

// entries holds what a receiver knows of each packet from Stream.next up to Stream.tracked, by sequence. It grows as
// needed: while few packets wait, it stays in the processor's cache, however large the window is.
type entries []entry // length is a power of two, or 0

// firstEntries is the initial number of entries.
const firstEntries = 32

func (x entries) at(seq uint64) *entry { return &x[seq&uint64(len(x)-1)] }

// reach makes room for the entries from low up to end. Entries from low up to tracked keep their values, but may move:
// pointers that at returned before become invalid.
func (x *entries) reach(low, tracked, end uint64) {
	if end-low <= uint64(len(*x)) {
		return
	}
	more := make(entries, max(firstEntries, nextPow2(int(end-low))))
	for seq := low; seq < tracked; seq++ {
		*more.at(seq) = *x.at(seq)
	}
	*x = more
}

// Loans are packets that stay in the fabric's memory while they wait for a missing packet: copying everything behind a
// loss would cost more than the repair. A receiver without Loans, or at their limit, copies packets into its window.
type Loans interface {
	// Keep keeps the packet that Handle is processing until Return. It reports false when that is impossible. It is called
	// at most once per Handle.
	Keep() (loan uint32, ok bool)
	// Packet returns the bytes of a kept packet.
	Packet(loan uint32) []byte
	// Return releases a kept packet.
	Return(loan uint32)
}

// hold keeps packet seq, which Handle is processing as b, until its turn: as a loan, or in a slot. It uses a slot where
// readers of the output read packets later, or where a history or state may delay packets for long.
func (st *Stream) hold(now Instant, seq uint64, b []byte) (entry, bool) {
	if loans := st.r.cfg.Loans; loans != nil && !st.win.keeps && !st.win.history.open && !st.win.join.waits() {
		if loan, ok := loans.Keep(); ok {
			return entry{state: entryLent, slot: loan}, true
		}
	}
	slot, ok := st.put(now, seq, b)
	return entry{state: entryHeld, slot: slot, size: uint16(len(b))}, ok
}

// packet returns the bytes of a held or lent packet.
func (st *Stream) packet(e *entry) []byte {
	if e.state == entryLent {
		return st.r.cfg.Loans.Packet(e.slot)
	}
	return st.win.slots.Bytes(e.slot, int(e.size))
}

// drop releases a held or lent packet.
func (st *Stream) drop(e *entry) {
	if e.state == entryLent {
		st.r.cfg.Loans.Return(e.slot)
	} else {
		st.win.slots.Release(e.slot)
	}
	e.state = entryEmpty
}

// settle moves the next packet, which is lent, into a slot, because the output began to keep packets after it arrived.
// It reports false when the output holds all slots.
func (st *Stream) settle(now Instant, e *entry) bool {
	b := st.packet(e)
	slot, ok := st.put(now, st.next, b)
	if !ok {
		return false
	}
	st.r.cfg.Loans.Return(e.slot)
	e.state, e.slot, e.size = entryHeld, slot, uint16(len(b))
	return true
}

// returnLoans returns the loans of a stream that ends early.
func (st *Stream) returnLoans() {
	for seq := st.next; seq < st.tracked; seq++ {
		if e := st.win.entries.at(seq); e.state == entryLent {
			st.drop(e)
		}
	}
}
