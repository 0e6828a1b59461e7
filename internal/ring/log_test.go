package ring

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

func newTestLog(slots, items int) *Log { return NewLog(NewSlots(slots, 16, heap), items) }

func (l *Log) testAppend(t *testing.T, seq uint64) bool {
	t.Helper()
	if !l.Room() {
		return false
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], seq)
	binary.LittleEndian.PutUint64(b[8:], ^seq)
	slot, ok := l.slots.Put(b[:])
	if !ok {
		return false
	}
	l.AppendPacket(seq, slot, 16)
	return true
}

// A log has room for an item as long as a note fits behind it.
func TestPinnedCursorBlocksProducer(t *testing.T) {
	for _, loose := range []bool{false, true} { // beside it is a cursor that does not block
		l := newTestLog(64, 8)
		c := l.Attach(true)
		if loose {
			l.Attach(false)
		}
		for seq := range uint64(7) {
			if !l.testAppend(t, seq) {
				t.Fatalf("no room for item %d of 7", seq)
			}
		}
		l.AppendNote(7, "note")
		for seq := range uint64(2) {
			if l.testAppend(t, 8) {
				t.Fatalf("a log accepted an item when a pinned cursor had read %d items of 8", seq)
			}
			if got := l.Backlog(); got != 8-int(seq) {
				t.Errorf("backlog %d, want %d", got, 8-seq)
			}
			it, data, ok := c.Lease()
			if !ok || it.Seq != seq || it.Skipped != 0 || binary.LittleEndian.Uint64(data) != seq {
				t.Fatalf("lease: item %+v, data %x, %v, want item %d with none skipped", it, data, ok, seq)
			}
			if l.testAppend(t, 8) {
				t.Fatal("the log reused a leased item")
			}
			c.Return()
		}
		if !l.testAppend(t, 8) {
			t.Fatal("no room after the cursor advanced by two items")
		}
		l.AppendNote(9, "note")
	}
}

func TestLooseCursorIsOvertakenAndKeepsLease(t *testing.T) {
	l := newTestLog(64, 8)
	c := l.Attach(false)
	l.testAppend(t, 0)
	_, data, _ := c.Lease()
	for seq := uint64(1); seq < 100; seq++ {
		if !l.testAppend(t, seq) {
			t.Fatalf("a loose cursor stopped the producer at %d", seq)
		}
		if got := binary.LittleEndian.Uint64(data); got != 0 {
			t.Fatalf("leased packet 0 was overwritten by %d", got)
		}
	}
	c.Return()
	it, data, ok := c.Lease()
	if !ok || it.Seq < 92 || binary.LittleEndian.Uint64(data) != it.Seq {
		t.Fatalf("lease after being overtaken: item %+v, %v, want item 92 or later", it, ok)
	}
	if it.Skipped != it.Seq-1 {
		t.Errorf("skipped %d, want %d", it.Skipped, it.Seq-1)
	}
	c.Return()
	l.Detach(c)
	if l.slots.Free() != 64 || len(l.heldPackets) != 0 {
		t.Errorf("%d of 64 slots are free, %d packets held, want all and none", l.slots.Free(), len(l.heldPackets))
	}
}

func TestItemsWithoutPackets(t *testing.T) {
	l := newTestLog(4, 8)
	c := l.Attach(true)
	l.AppendNote(5, "first")
	l.AppendNote(8, "second")
	l.End(8, "end")
	want := []Item{
		{Seq: 5, Note: "first"},
		{Seq: 8, Note: "second"},
		{Seq: 8, Note: "end"},
	}
	for _, w := range want {
		it, _, ok := c.Lease()
		if !ok {
			t.Fatal("the log ended early")
		}
		if *it != w {
			t.Errorf("got %+v, want %+v", *it, w)
		}
		c.Return()
	}
}

// Readers of both kinds race with the producer: each must see its items in order and intact, and a pinned one must see
// all, also while the log's table grows repeatedly.
func TestConcurrentCursors(t *testing.T) {
	t.Run("full", func(t *testing.T) { raceCursors(t, 600, 256, 200_000) })
	t.Run("growing", func(t *testing.T) {
		for range 100 {
			raceCursors(t, 5000, 4096, 3000)
		}
	})
}

func raceCursors(t *testing.T, slots, items int, packets uint64) {
	l := newTestLog(slots, items)
	var wg sync.WaitGroup
	start := func(block bool) *Cursor {
		c := l.Attach(block)
		rng := rand.New(rand.NewPCG(1, uint64(l.cursors.Len())))
		wg.Go(func() {
			next := uint64(0)
			for {
				it, data, ok := c.Lease()
				if !ok {
					runtime.Gosched()
					continue
				}
				if it.Note == "end" {
					c.Return()
					return
				}
				seq, inv := it.Seq, ^it.Seq
				if it.Note == nil {
					seq, inv = binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])
				}
				if (it.Note != nil) != isNote(it.Seq) || it.Note != nil && it.Note != it.Seq ||
					seq != it.Seq || inv != ^seq || seq < next || it.Skipped != seq-next || (block && seq != next) {
					t.Errorf("block=%v: got item %d with note %v and packet %d/%d, want %d", block, it.Seq, it.Note, seq, ^inv, next)
					c.Return()
					return
				}
				next = seq + 1
				if !block && rng.IntN(64) == 0 { // wait while it holds the lease
					for range rng.IntN(300) {
						runtime.Gosched()
					}
					if data != nil && binary.LittleEndian.Uint64(data) != seq {
						t.Errorf("leased packet %d changed", seq)
					}
				}
				c.Return()
			}
		})
		return c
	}
	cursors := []*Cursor{start(true), start(false), start(false), start(true)}
	for seq := uint64(0); seq < packets; seq++ {
		for ; !l.testItem(t, seq); l.Reclaim() {
			if t.Failed() {
				t.FailNow()
			}
			runtime.Gosched()
		}
	}
	l.End(packets, "end")
	wg.Wait()
	for _, c := range cursors {
		l.Detach(c)
	}
	if l.slots.Free() != slots {
		t.Errorf("%d of %d slots were released", l.slots.Free(), slots)
	}
}

// isNote reports whether item seq is a note with the value seq.
func isNote(seq uint64) bool { return seq%50 == 49 }

// testItem appends item seq, and reports whether there was room.
func (l *Log) testItem(t *testing.T, seq uint64) bool {
	if !isNote(seq) {
		return l.testAppend(t, seq)
	}
	room := l.Room()
	if room {
		l.AppendNote(seq, seq)
	}
	return room
}

// A log gets memory for its maximum number of items, and each keeps its contents.
func TestLogGrows(t *testing.T) {
	l := newTestLog(2000, 1024)
	c := l.Attach(true)
	first, next := uint64(0), uint64(0)
	for _, items := range []uint64{10, firstItems, 3, firstItems + 1, firstItems, 700, 1023, 5} {
		for ; next < first+items; next++ {
			if !l.testItem(t, next) {
				t.Fatalf("no room for item %d", next)
			}
		}
		if n := len(l.table.Load().entries); n > max(firstItems, 1024) || n < int(items) {
			t.Errorf("a table of %d entries for %d items, want at most %d", n, items, max(firstItems, 1024))
		}
		for ; first < next; first++ {
			it, data, ok := c.Lease()
			if !ok || it.Seq != first || isNote(first) && it.Note != first || !isNote(first) && binary.LittleEndian.Uint64(data) != first {
				t.Fatalf("item %d is %+v, %v, want it with its own number or note", first, it, ok)
			}
			c.Return()
		}
		if l.Reclaim(); l.slots.Free() != 2000 {
			t.Errorf("%d of 2000 slots are free, want all", l.slots.Free())
		}
	}
	if l := newTestLog(10, 1<<16); len(l.table.Load().entries) != firstItems {
		t.Errorf("an empty log has memory for %d items, want %d", len(l.table.Load().entries), firstItems)
	}
}

func TestReadAndAppendDoNotAllocate(t *testing.T) {
	l := newTestLog(64, 32)
	c := l.Attach(true)
	var b [16]byte
	if n := testing.AllocsPerRun(1000, func() {
		slot, _ := l.slots.Put(b[:])
		l.Room()
		l.AppendPacket(1, slot, 16)
		c.Lease()
		c.Return()
		l.Reclaim()
	}); n != 0 {
		t.Errorf("%v allocations per packet, want 0", n)
	}
}

func heap(bytes int, _ bool) ([]byte, error) { return make([]byte, bytes), nil }

// Memory is allocated as slots are used, some 64 KiB at once, and no slot is lost when an allocation fails.
func TestSlotsAllocateWhenUsed(t *testing.T) {
	for _, c := range []struct{ stride, chunk int }{ // bytes, slots
		{16, 4096}, {1472, 32}, {1 << 10, 64}, {8 << 10, 8}, {65507, 1}, {64 << 10, 1}, {100_000, 1},
	} {
		var refuse error
		var read []int
		n := 3*c.chunk/2 + 1
		s := NewSlots(n, c.stride, func(bytes int, soon bool) ([]byte, error) {
			if soon != (len(read) > 0) {
				t.Errorf("slots of %d bytes, chunk %d: filled soon: %v, want the opposite", c.stride, len(read), soon)
			}
			if refuse == nil {
				read = append(read, bytes)
			}
			return make([]byte, bytes), refuse
		})
		for i := range n {
			if want := min(n, (i+c.chunk-1)/c.chunk*c.chunk) * c.stride; s.Memory() != want {
				t.Fatalf("slots of %d bytes: %d bytes for %d, want %d", c.stride, s.Memory(), i, want)
			}
			if i == c.chunk {
				refuse = errors.New("no memory")
				if _, ok := s.Put([]byte("x")); ok || s.Free() != n-i {
					t.Errorf("Put without memory: %v, %d free, want no slot and %d free", ok, s.Free(), n-i)
				}
				refuse = nil
			}
			slot, ok := s.Put([]byte{byte(i), byte(i >> 8)})
			if !ok {
				t.Fatalf("no slot %d", i)
			}
			if b := s.Bytes(slot, 2); cap(b) != 2 {
				t.Errorf("slot %d has room for %d, want 2", i, cap(b))
			}
		}
		for i := range n { // they are in order, and do not overlap
			if b := s.Bytes(uint32(i), c.stride); b[0] != byte(i) || b[1] != byte(i>>8) || len(b) != c.stride {
				t.Fatalf("slot %d of %d bytes holds %x, want %d", i, c.stride, b[:2], i)
			}
		}
	}
}

func TestDoubleReleasePanics(t *testing.T) {
	s := NewSlots(4, 16, heap)
	defer func() {
		if recover() == nil {
			t.Error("releasing a slot twice does not panic")
		}
	}()
	s.Release(0)
}

// The memory of an ended log is freed before its cursors have read everything, but not while one uses a packet: read
// items are intact, and the others are a gap before the end.
func TestAbandonedLogIsNotAccessed(t *testing.T) {
	for range 2000 {
		const items = 16
		l := newTestLog(items, items)
		chunks := l.slots.Chunks()
		c := l.Attach(true)
		for seq := range uint64(items) {
			l.testAppend(t, seq)
		}
		if l.Abandon() {
			t.Fatal("a log without an end was abandoned")
		}
		l.End(items, "end")
		var wg sync.WaitGroup
		wg.Go(func() {
			next := uint64(0)
			for {
				it, data, ok := c.Lease()
				if !ok || it.Seq < next {
					t.Errorf("item %+v, %v, want %d or a later one", it, ok, next)
					return
				}
				if it.Note != nil {
					return
				}
				if next = it.Seq + 1; binary.LittleEndian.Uint64(data) != it.Seq || binary.LittleEndian.Uint64(data[8:]) != ^it.Seq {
					t.Errorf("packet %d holds %x, want its number and the complement", it.Seq, data)
				}
				c.Return()
			}
		})
		for !l.Abandon() {
			runtime.Gosched()
		}
		for _, c := range chunks {
			clear(c)
		}
		wg.Wait()
		l.Detach(c)
	}
}

// A packet that a detached cursor does not release expires after a while, and the oldest ones earlier if there are
// many, but not while another cursor needs it.
func TestDetachedCursorsExpire(t *testing.T) {
	l := newTestLog(8, 8)
	other := l.Attach(true)
	var gone []*Cursor
	for seq := range uint64(3) {
		c := l.Attach(true)
		l.testAppend(t, seq)
		if _, _, ok := c.Lease(); !ok {
			t.Fatal("nothing to lease")
		}
		gone = append(gone, c)
	}
	for _, c := range gone {
		l.Detach(c)
	}
	check := func(free, held int) {
		t.Helper()
		if l.slots.Free() != free || l.Held() != held {
			t.Fatalf("%d of 8 slots free, %d held; want %d and %d", l.slots.Free(), l.Held(), free, held)
		}
	}
	l.Expire(100, 50, 2) // one item too many: the other cursor has not read the item yet
	check(5, 3)
	it, _, _ := other.Lease()
	if it.Seq != 0 {
		t.Fatalf("the other cursor reads %+v, want packet 0", it)
	}
	other.Return()
	l.Expire(149, 50, 2)
	check(6, 2)
	for range 2 {
		other.Lease()
		other.Return()
	}
	l.Expire(149, 50, 2)
	check(6, 2) // they are held, and have not expired yet
	gone[1].Return()
	l.Expire(149, 50, 2)
	check(7, 1)
	l.Expire(150, 50, 2)
	check(8, 0)
}
