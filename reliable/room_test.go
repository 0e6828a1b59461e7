package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// What an output has no room for waits in the window, and comes in order when it has.
// Meanwhile the publisher is told of no more room than there is.
func TestOutputWithoutRoom(t *testing.T) {
	for _, most := range []int{0, 3, 100} { // packets that may stay where they are
		x, l, got := lending(t, most)
		full := false
		l.room = func() bool { return !full }
		x.handle(1, data(3, 0, 0))
		full = true
		for _, seq := range []uint64{1, 2, 4} {
			x.handle(1, data(3, seq, 0))
		}
		st := x.r.Streams()[0]
		if !slices.Equal(*got, upTo(1)) || !st.Stalled() {
			t.Fatalf("delivered %d, stalled %v", *got, st.Stalled())
		}
		if limit := st.limit(); limit != 1+32 {
			t.Errorf("the limit is %d with packet 1 undelivered", limit)
		}
		if x.r.Tick(2); len(*got) != 1 {
			t.Errorf("delivered %d without room", *got)
		}
		full = false
		if x.r.Resume(3); !slices.Equal(*got, upTo(3)) || st.Stalled() {
			t.Errorf("delivered %d with room, stalled %v", *got, st.Stalled())
		}
		x.handle(4, data(3, 3, wire.FlagRepair))
		if !slices.Equal(*got, upTo(5)) || x.out() > 0 || st.win.slots.Free() != 32 {
			t.Errorf("delivered %d, %d packets are kept, %d slots free", *got, x.out(), st.win.slots.Free())
		}
	}
}

// That a publisher is lost is told behind the packets that came of it, and not at all if
// it is back by then.
func TestLostIsToldInOrder(t *testing.T) {
	for _, back := range []bool{false, true} {
		x, l, got := lending(t, 100)
		full := false
		l.room = func() bool { return !full }
		x.handle(1, data(3, 0, 0))
		full = true
		x.handle(1, data(3, 1, 0))
		now := Instant(time.Minute)
		if x.r.Tick(now); len(l.down) != 1 || len(l.totals) != 0 {
			t.Fatalf("down %v, told %v", l.down, l.totals)
		}
		if back {
			x.handle(now, data(3, 2, 0))
		}
		l.onPacket = func(st *Stream, runs []byte) {
			if len(l.totals) > 0 {
				t.Error("the publisher is said to be lost before its last packet")
			}
			*got = append(*got, st.Next())
		}
		full = false
		x.r.Resume(now)
		lost := slices.ContainsFunc(l.totals, func(t TopicTotal) bool { return t.Lost == CausePublisherLost })
		if want := upTo(2); back {
			if want = upTo(3); !slices.Equal(*got, want) || lost || len(l.up) != 2 {
				t.Errorf("delivered %d, told %v, up %v", *got, l.totals, l.up)
			}
		} else if !slices.Equal(*got, want) || !lost {
			t.Errorf("delivered %d, told %v", *got, l.totals)
		}
	}
}
