package reliable

import (
	"bytes"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// lender is the fabric's memory in a test: packets that Handle is given through
// it are spoiled when they may not be used any more.
type lender struct {
	t     *testing.T
	r     *Receiver
	most  int
	given []byte
	kept  map[uint32][]byte
	next  uint32
}

// handle gives r a copy of b.
func (l *lender) handle(now Instant, b []byte) {
	l.t.Helper()
	l.given = bytes.Clone(b)
	l.r.Handle(now, 5, l.given)
	if !slices.ContainsFunc(l.keptPackets(), func(p []byte) bool { return &p[0] == &l.given[0] }) {
		clear(l.given)
	}
	l.given = nil
}

func (l *lender) keptPackets() (all [][]byte) {
	for _, p := range l.kept {
		all = append(all, p)
	}
	return all
}

func (l *lender) Keep() (uint32, bool) {
	if l.given == nil {
		l.t.Fatal("a packet is kept that is not being handled")
	}
	if len(l.kept) == l.most {
		return 0, false
	}
	l.next++
	l.kept[l.next] = l.given
	return l.next, true
}

func (l *lender) Packet(n uint32) []byte { return l.kept[n] }

func (l *lender) Return(n uint32) {
	b, ok := l.kept[n]
	if !ok {
		l.t.Fatalf("loan %d is returned twice", n)
	}
	delete(l.kept, n)
	if l.given == nil || &b[0] != &l.given[0] {
		clear(b)
	}
}

// lending is a receiver that may keep most packets, and what it delivers.
func lending(t *testing.T, most int) (*lender, *log, *[]uint64) {
	t.Helper()
	l := &log{}
	var got []uint64
	l.onPacket = func(_ *Stream, runs []byte) {
		run, _, ok := wire.NextRun(runs)
		if !ok || run.Topic != TopicID("a.b") {
			t.Fatalf("a packet is delivered damaged: %x", runs)
		}
		got = append(got, run.Number) // equals the sequence
	}
	x := &lender{t: t, most: most, kept: make(map[uint32][]byte)}
	x.r = newReceiver(t, l, func(c *ReceiverConfig) { c.Loans = x })
	return x, l, &got
}

func upTo(n uint64) (all []uint64) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestPacketsWaitWhereTheyAre(t *testing.T) {
	for _, most := range []int{0, 1, 3, 100} {
		x, _, got := lending(t, most)
		for _, seq := range []uint64{0, 2, 3, 5, 6, 6, 7} { // 1 and 4 are missing, 6 comes twice
			x.handle(1, data(3, seq, 0))
		}
		if want := min(most, 5); len(x.kept) != want {
			t.Errorf("%d packets are kept, want %d", len(x.kept), want)
		}
		if free := x.r.list[0].slots.Free(); free != 32-5+len(x.kept) {
			t.Errorf("%d slots are free, %d packets kept", free, len(x.kept))
		}
		x.handle(2, data(3, 1, wire.FlagRepair))
		if want := upTo(4); !slices.Equal(*got, want) {
			t.Fatalf("delivered %d, want %d", *got, want)
		}
		x.handle(3, data(3, 4, wire.FlagRepair))
		if want := upTo(8); !slices.Equal(*got, want) {
			t.Fatalf("delivered %d, want %d", *got, want)
		}
		if len(x.kept) > 0 || x.r.list[0].slots.Free() != 32 {
			t.Errorf("%d packets are still kept, %d of 32 slots free", len(x.kept), x.r.list[0].slots.Free())
		}
	}
}

// A first cursor finds what waits, copied: it reads at its own pace.
func TestCursorCopiesWhatWaits(t *testing.T) {
	x, _, got := lending(t, 100)
	x.handle(1, data(3, 0, 0))
	x.handle(1, data(3, 2, 0))
	x.handle(1, data(3, 3, 0))
	st := x.r.Streams()[0]
	c := st.Attach(true)
	if len(x.kept) > 0 {
		t.Fatalf("%d packets are kept though a cursor reads", len(x.kept))
	}
	x.handle(2, data(3, 5, 0))
	x.handle(2, data(3, 1, wire.FlagRepair))
	x.handle(2, data(3, 4, wire.FlagRepair))
	if len(x.kept) > 0 || !slices.Equal(*got, upTo(6)) {
		t.Errorf("%d packets are kept; delivered %d", len(x.kept), *got)
	}
	for want := uint64(1); want < 6; want++ {
		it, b, ok := c.Lease()
		if !ok || it.Seq != want || !bytes.Equal(b, data(3, want, wire.Flags(b[4]))) {
			t.Fatalf("the cursor reads %+v, %x; want packet %d", it, b, want)
		}
		c.Return()
	}
	// Without it packets may stay again.
	st.Detach(c)
	x.handle(3, data(3, 7, 0))
	if len(x.kept) != 1 {
		t.Errorf("%d packets are kept after the cursor has gone, want 1", len(x.kept))
	}
}

func TestLoansEndWithTheirStream(t *testing.T) {
	fill := func(x *lender) {
		for _, seq := range []uint64{0, 2, 3, 5} {
			x.handle(1, data(3, seq, 0))
		}
		if len(x.kept) != 3 {
			t.Fatalf("%d packets are kept, want 3", len(x.kept))
		}
	}
	t.Run("free", func(t *testing.T) {
		x, _, _ := lending(t, 100)
		fill(x)
		x.r.Free()
		if len(x.kept) > 0 {
			t.Errorf("%d packets are still kept", len(x.kept))
		}
	})
	t.Run("restart", func(t *testing.T) {
		x, l, got := lending(t, 100)
		fill(x)
		x.handle(2, data(4, 0, 0))
		if len(x.kept) > 0 || len(l.gaps) != 2 {
			t.Errorf("%d packets are still kept, gaps %v", len(x.kept), l.gaps)
		}
		if want := []uint64{0, 2, 3, 5, 0}; !slices.Equal(*got, want) {
			t.Errorf("delivered %d, want %d", *got, want)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		x, l, got := lending(t, 100)
		fill(x)
		x.r.Tick(Instant(0).Add(x.r.cfg.Deadline) + 2)
		if len(x.kept) > 0 || len(l.gaps) != 2 || len(*got) != 4 {
			t.Errorf("%d packets are still kept, gaps %v, delivered %d", len(x.kept), l.gaps, *got)
		}
	})
}
