package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Packets without room in the output wait in the window, and are delivered in order later. Meanwhile
// the limit in statuses promises no more room than there is.
func TestOutputWithoutRoom(t *testing.T) {
	for _, most := range []int{0, 3, 100} { // maximum of packets kept in place
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
		if limit := st.limit(1); limit != 1+32 {
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

// The loss of a publisher is reported after its packets, and not at all if it has returned by then.
func TestLostIsReportedInOrder(t *testing.T) {
	for _, back := range []bool{false, true} {
		x, l, got := lending(t, 100)
		full := false
		l.room = func() bool { return !full }
		x.handle(1, data(3, 0, 0))
		full = true
		x.handle(1, data(3, 1, 0))
		now := Instant(time.Minute)
		if x.r.Tick(now); len(l.down) != 1 || len(l.lost) != 0 {
			t.Fatalf("down %v, reported %v", l.down, l.lost)
		}
		if back {
			x.handle(now, data(3, 2, 0))
		}
		l.onPacket = func(st *Stream, runs []byte) {
			if len(l.lost) > 0 {
				t.Error("the publisher is reported as lost before its last packet")
			}
			*got = append(*got, st.Next())
		}
		full = false
		x.r.Resume(now)
		lost := slices.Equal(l.lost, []events.Cause{events.CausePublisherLost})
		if want := upTo(2); back {
			if want = upTo(3); !slices.Equal(*got, want) || lost || len(l.up) != 2 {
				t.Errorf("delivered %d, reported %v, up %v", *got, l.lost, l.up)
			}
		} else if !slices.Equal(*got, want) || !lost {
			t.Errorf("delivered %d, reported %v", *got, l.lost)
		}
	}
}

// A loss that had to wait for room is reported before the loss of its publisher, once. docs/protocol §9.3.
func TestLossOfALostPublisherIsReportedInOrder(t *testing.T) {
	for name, asks := range map[string]bool{"in place": false, "with a reader that was overtaken": true} {
		x, l, got := lending(t, 100)
		full := false
		l.room = func() bool { return !full }
		x.handle(1, data(3, 0, 0))
		full = true
		x.handle(1, data(3, 2, 0)) // 1 is missing
		now := Instant(time.Minute)
		if x.r.Tick(now); len(l.down) != 1 || len(l.gaps)+len(l.lost) != 0 {
			t.Fatalf("%s: down %v, reported %v, %v without room", name, l.down, l.gaps, l.lost)
		}
		if asks {
			x.r.Streams()[0].RepeatDown()
		}
		full = false
		x.r.Resume(now)
		if want := []uint64{0, 2}; !slices.Equal(*got, want) || len(l.gaps) != 1 || l.gaps[0] != [3]uint64{1, 1, uint64(events.CausePublisherLost)} {
			t.Errorf("%s: delivered %d, gaps %v", name, *got, l.gaps)
		}
		if want := []events.Cause{events.CausePublisherLost}; !slices.Equal(l.lost, want) {
			t.Errorf("%s: reported %v, want %v", name, l.lost, want)
		}
		// A reader that is overtaken later asks for an index round: no publisher is left to answer.
		if x.r.Streams()[0].RepeatDown(); len(l.lost) != 2 || l.lost[1] != l.lost[0] {
			t.Errorf("%s: after a later question: reported %v", name, l.lost)
		}
	}
}

// A publisher that announced its end and is lost before everything was received goes down once. The
// stream ends when the publisher is received again. docs/protocol §11.2.
func TestEndOfALostPublisher(t *testing.T) {
	x, l, got := lending(t, 100)
	full := false
	l.room = func() bool { return !full }
	x.handle(1, data(3, 0, 0))
	full = true
	x.handle(1, data(3, 1, 0))
	x.handle(1, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{SentAt: 1, Lead: 3})) // 2 is missing
	now := Instant(time.Minute)
	x.r.Tick(now)
	full = false
	x.r.Resume(now)
	if !slices.Equal(*got, upTo(2)) || len(l.gaps) != 1 || !slices.Equal(l.down, []events.Cause{events.CausePublisherLost}) {
		t.Fatalf("delivered %d, gaps %v, down %v", *got, l.gaps, l.down)
	}
	x.handle(now, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{SentAt: uint64(now), Lead: 3}))
	if !slices.Equal(l.down, []events.Cause{events.CausePublisherLost, events.CauseNone}) || len(l.up) != 2 || !x.r.Streams()[0].Ended() {
		t.Errorf("received again: up %d times, down %v", len(l.up), l.down)
	}
}
