package reliable

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// lender is packet memory for tests: packets passed to Handle through it are overwritten when they
// must not be used again.
type lender struct {
	t       testing.TB
	r       *Receiver
	lent    []byte // the packet that Handle is called with
	keeping bool   // Handle has kept it
	kept    [100][]byte
	free    []uint32
	fixed   bool // never overwrite packets
	uses    int
}

func newLender(t testing.TB, limit int) *lender {
	l := &lender{t: t}
	for i := range limit {
		l.free = append(l.free, uint32(i))
	}
	return l
}

// handle passes a copy of b to r.
func (l *lender) handle(now Instant, b []byte) {
	l.lend(now, bytes.Clone(b))
	if !l.keeping {
		clear(l.lent)
	}
	l.lent = nil
}

func (l *lender) lend(now Instant, b []byte) {
	l.lent, l.keeping = b, false
	l.r.Handle(now, 5, b)
}

// out returns how many packets are kept.
func (l *lender) out() (n int) {
	for _, b := range l.kept {
		if b != nil {
			n++
		}
	}
	return n
}

func (l *lender) Keep() (uint32, bool) {
	if l.lent == nil || l.keeping {
		l.t.Fatal("Keep outside of Handle, or twice")
	}
	n := len(l.free) - 1
	if n < 0 {
		return 0, false
	}
	i := l.free[n]
	l.free, l.kept[i], l.keeping = l.free[:n], l.lent, true
	l.uses++
	return i, true
}

func (l *lender) Packet(i uint32) []byte { return l.kept[i] }

func (l *lender) Return(i uint32) {
	b := l.kept[i]
	if b == nil {
		l.t.Fatalf("loan %d is returned twice", i)
	}
	if !l.fixed {
		clear(b)
	}
	l.kept[i] = nil
	l.free = append(l.free, i)
}

// lending returns a receiver that may keep up to limit packets, and its deliveries.
func lending(t *testing.T, limit int) (*lender, *log, *[]uint64) {
	t.Helper()
	l := &log{}
	var got []uint64
	l.onPacket = func(_ *Stream, runs []byte) {
		run, _, ok := wire.NextRun(runs)
		if !ok || run.Topic != wire.TopicID("a.b") {
			t.Fatalf("a packet is delivered damaged: %x", runs)
		}
		got = append(got, run.Number) // same as the sequence
	}
	x := newLender(t, limit)
	x.r = newReceiver(t, l, func(c *ReceiverConfig) { c.Loans = x })
	return x, l, &got
}

func upTo(n uint64) (all []uint64) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestPacketsWaitInPlace(t *testing.T) {
	for _, most := range []int{0, 1, 3, 100} {
		x, _, got := lending(t, most)
		for _, seq := range []uint64{0, 2, 3, 5, 6, 6, 7} { // 1 and 4 are missing, 6 is duplicated
			x.handle(1, data(3, seq, 0))
		}
		if want := min(most, 5); x.out() != want {
			t.Errorf("%d packets are kept, want %d", x.out(), want)
		}
		if free := x.r.list[0].win.slots.Free(); free != 32-5+x.out() {
			t.Errorf("%d slots are free, %d packets kept", free, x.out())
		}
		x.handle(2, data(3, 1, wire.FlagRepair))
		if want := upTo(4); !slices.Equal(*got, want) {
			t.Fatalf("delivered %d, want %d", *got, want)
		}
		x.handle(3, data(3, 4, wire.FlagRepair))
		if want := upTo(8); !slices.Equal(*got, want) {
			t.Fatalf("delivered %d, want %d", *got, want)
		}
		if x.out() > 0 || x.r.list[0].win.slots.Free() != 32 {
			t.Errorf("%d packets are still kept, %d of 32 slots free", x.out(), x.r.list[0].win.slots.Free())
		}
	}
}

// A cursor gets copies of waiting packets, because it reads at its own rate.
func TestCursorCopiesWhatWaits(t *testing.T) {
	x, _, got := lending(t, 100)
	x.handle(1, data(3, 0, 0))
	x.handle(1, data(3, 2, 0))
	x.handle(1, data(3, 3, 0))
	st := x.r.Streams()[0]
	c := attach(st, true)
	x.handle(2, data(3, 5, 0))
	if x.out() != 2 {
		t.Errorf("%d packets are kept, want the 2 from before the cursor", x.out())
	}
	x.handle(2, data(3, 1, wire.FlagRepair))
	x.handle(2, data(3, 4, wire.FlagRepair))
	if x.out() > 0 || !slices.Equal(*got, upTo(6)) {
		t.Errorf("%d packets are kept; delivered %d", x.out(), *got)
	}
	for want := uint64(1); want < 6; want++ {
		it, b, ok := c.Lease()
		if !ok || it.Seq != want || !bytes.Equal(b, data(3, want, wire.Flags(b[4]))) {
			t.Fatalf("the cursor reads %+v, %x; want packet %d", it, b, want)
		}
		c.Return()
	}
	// Without the cursor packets may be kept in place again.
	detach(st, c)
	x.handle(3, data(3, 7, 0))
	if x.out() != 1 {
		t.Errorf("%d packets are kept after the cursor was closed, want 1", x.out())
	}
}

// closeCursors detaches n cursors, each while it holds a packet, from packet first on. It returns
// those that hold one, and the next packet.
func closeCursors(t *testing.T, x *lender, now Instant, first uint64, n int) ([]*ring.Cursor, uint64) {
	t.Helper()
	st := x.r.Streams()[0]
	var closed []*ring.Cursor
	for range n {
		c := attach(st, true)
		x.handle(now, data(3, first, 0))
		first++
		if _, _, ok := c.Lease(); !ok {
			t.Fatal("a cursor finds no packet")
		}
		detach(st, c)
		closed = append(closed, c)
	}
	return closed, first
}

// A packet that a closed cursor is reading is kept until the reader returns it, or for a limited time.
func TestClosedCursorIsReleased(t *testing.T) {
	free := func(x *lender) int { return x.r.Streams()[0].win.slots.Free() }
	x, _, _ := lending(t, 100)
	x.handle(1, data(3, 0, 0))
	closed, next := closeCursors(t, x, 1, 1, 3)
	now := Instant(2)
	resume(x.r, now)
	if free(x) != 29 {
		t.Fatalf("%d of 32 slots are free while 3 packets are held", free(x))
	}
	// The limit in statuses excludes slots that are not free.
	st := x.r.Streams()[0]
	limit := func() {
		t.Helper()
		if got, want := st.limit(1), next+32-3; got != want {
			t.Errorf("the limit is %d, want %d", got, want)
		}
	}
	limit()
	c := attach(st, true)
	limit()
	detach(st, c)
	closed[0].Return()
	resume(x.r, now)
	if free(x) != 30 {
		t.Errorf("%d of 32 slots are free, want 30 after one was returned", free(x))
	}
	later := func(at Instant) {
		x.handle(at, heartbeatOf(3, 0, wire.Heartbeat{Lead: next, SentAt: uint64(at)})) // the publisher is alive
		resume(x.r, at)
	}
	if later(now.Add(heldFor - 1)); free(x) != 30 {
		t.Errorf("%d of 32 slots are free before the time limit", free(x))
	}
	now = now.Add(heldFor)
	later(now)
	if free(x) != 32 {
		t.Errorf("%d of 32 slots are free after the time limit", free(x))
	}
	// At most an eighth of the window.
	closeCursors(t, x, now, next, 10)
	resume(x.r, now)
	if free(x) != 28 {
		t.Errorf("%d of 32 slots are free after 10 cursors were closed", free(x))
	}
}

// Slots returned by closed cursors are available at once.
func TestClosedCursorsSlotIsUsed(t *testing.T) {
	x, _, got := lending(t, 0)
	x.handle(1, data(3, 0, 0))
	closed, next := closeCursors(t, x, 1, 1, 2)
	for _, c := range closed {
		c.Return()
	}
	for seq := next + 1; seq < next+32; seq++ {
		x.handle(1, data(3, seq, 0))
	}
	x.handle(1, data(3, next, wire.FlagRepair))
	if x.r.stats.Overrun > 0 || len(*got) != 3+32 {
		t.Errorf("%d packets found no room, %d were delivered", x.r.stats.Overrun, len(*got))
	}
}

// If closed cursors hold slots, there may be no slot for a waiting packet when a cursor is
// attached: the stream waits for one.
func TestNoSlotForWhatWaits(t *testing.T) {
	x, l, got := lending(t, 100)
	x.handle(1, data(3, 0, 0))
	closed, next := closeCursors(t, x, 1, 1, 2)
	for seq := next + 1; seq < next+32; seq++ {
		x.handle(1, data(3, seq, 0))
	}
	st := x.r.Streams()[0]
	c := attach(st, true)
	x.handle(2, data(3, next, wire.FlagRepair))
	read := func() (n int) {
		for {
			it, b, ok := c.Lease()
			if !ok {
				return n
			}
			if want := next + uint64(n); it.Seq != want || !bytes.Equal(b, data(3, want, wire.Flags(b[4]))) {
				t.Fatalf("the cursor reads %+v, %x; want packet %d", it, b, want)
			}
			c.Return()
			n++
		}
	}
	// 30 slots for 32 packets: two must wait until others are read.
	if n := len(*got); n != 3+30 || !st.Stalled() {
		t.Errorf("%d packets were delivered, stalled %v", n, st.Stalled())
	}
	closed[0].Return()
	x.r.Tick(3)
	if n := len(*got); n != 3+31 {
		t.Errorf("%d packets were delivered after one was released", n)
	}
	n := read()
	resume(x.r, 4)
	next += uint64(n)
	if m := read(); n+m != 32 || len(*got) != 3+32 || x.out() > 0 || len(l.gaps) > 0 {
		t.Errorf("the cursor read %d and %d packets, %d were delivered, %d are kept, gaps %v", n, m, len(*got), x.out(), l.gaps)
	}
}

func TestLoansEndWithTheirStream(t *testing.T) {
	fill := func(x *lender) {
		for _, seq := range []uint64{0, 2, 3, 5} {
			x.handle(1, data(3, seq, 0))
		}
		if x.out() != 3 {
			t.Fatalf("%d packets are kept, want 3", x.out())
		}
	}
	t.Run("free", func(t *testing.T) {
		x, _, _ := lending(t, 100)
		fill(x)
		x.r.Free()
		if x.out() > 0 {
			t.Errorf("%d packets are still kept", x.out())
		}
	})
	t.Run("restart", func(t *testing.T) {
		x, l, got := lending(t, 100)
		fill(x)
		x.handle(2, data(4, 0, 0))
		if x.out() != 3 || len(l.gaps) != 0 {
			t.Errorf("%d packets are kept after another instance came up, gaps %v", x.out(), l.gaps)
		}
		x.r.Tick(Instant(10 * time.Second))
		if x.out() > 0 || len(l.gaps) != 2 {
			t.Errorf("%d packets are still kept after the old one was lost, gaps %v", x.out(), l.gaps)
		}
		if want := []uint64{0, 0, 2, 3, 5}; !slices.Equal(*got, want) {
			t.Errorf("delivered %d, want %d", *got, want)
		}
	})
	t.Run("end", func(t *testing.T) {
		x, _, _ := lending(t, 100)
		fill(x)
		x.handle(2, data(3, 1, wire.FlagRepair))
		x.handle(2, data(3, 4, wire.FlagRepair))
		x.handle(2, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 6, SentAt: 1}))
		x.handle(2, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 6, SentAt: 2}))
		if !x.r.Streams()[0].life.finished || x.out() > 0 {
			t.Errorf("%d packets are still kept, finished %v", x.out(), x.r.Streams()[0].life.finished)
		}
	})
	t.Run("eviction", func(t *testing.T) {
		x, _, _ := lending(t, 100)
		x.r.cfg.MaxStreams = 1
		x.handle(1, data(3, 0, 0))
		_, next := closeCursors(t, x, 1, 1, 10)
		for seq := next + 1; seq < next+32; seq++ {
			x.handle(1, data(3, seq, 0))
		}
		st := x.r.Streams()[0]
		c := attach(st, true) // blocks the stream
		x.handle(1, data(3, next, wire.FlagRepair))
		now := Instant(1).Add(time.Minute)
		x.r.Tick(now)
		if !st.life.down || !st.stalled || x.out() == 0 {
			t.Fatalf("down %v, stalled %v, %d packets kept", st.life.down, st.stalled, x.out())
		}
		other := data(3, 0, 0)
		wire.PutDataHeader(other, wire.Header{GroupTag: 9, Publisher: 8, Epoch: 3}, 512)
		x.handle(now, other)
		if x.r.Streams()[0] == st || x.out() > 0 {
			t.Errorf("%d packets are still kept", x.out())
		}
		detach(st, c)
	})
	t.Run("deadline", func(t *testing.T) {
		x, l, got := lending(t, 100)
		fill(x)
		x.r.Tick(Instant(0).Add(x.r.cfg.Deadline) + 2)
		if x.out() > 0 || len(l.gaps) != 2 || len(*got) != 4 {
			t.Errorf("%d packets are still kept, gaps %v, delivered %d", x.out(), l.gaps, *got)
		}
	})
}
