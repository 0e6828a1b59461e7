package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Packets may have waited since the receive queue was last known to be empty: at a poll that found none, or when the loop
// last finished before its deadline.
func TestInboxStalled(t *testing.T) {
	at := func(ms int) reliable.Instant {
		return reliable.Instant(time.Second).Add(time.Duration(ms) * time.Millisecond)
	}
	x := inbox{batch: transport.NewBatch(4), drainedAt: at(50)} // the deadline of the loop's sleep
	x.batch.Trains = append(x.batch.Trains, transport.Train{Data: make([]byte, 10), SegmentSize: 10})
	for _, c := range []struct {
		now     int
		packets int
		stalled bool
	}{{0, 1, false}, {99, 1, false}, {100, 1, true}, {200, 0, false}, {250, 1, false}, {300, 1, true}} {
		x.batch.Trains = x.batch.Trains[:c.packets]
		if n := x.arrived(at(c.now)); n != c.packets || x.stalled(at(c.now)) != c.stalled {
			t.Errorf("after %d ms: %d packets, stalled %v, want %d and %v", c.now, n, x.stalled(at(c.now)), c.packets, c.stalled)
		}
	}
}

// A large packet counts as several of the usual size.
func TestInboxCountsLargePackets(t *testing.T) {
	x := inbox{batch: transport.NewBatch(4)}
	x.batch.Trains = append(x.batch.Trains,
		transport.Train{Data: make([]byte, 8*8192), SegmentSize: 8192},
		transport.Train{Data: make([]byte, 10*usualPacket), SegmentSize: usualPacket},
		transport.Train{Data: make([]byte, 300), SegmentSize: 100})
	if n := x.arrived(aMinute); n != 44+10+3 {
		t.Errorf("%d packets, want %d", n, 44+10+3)
	}
}

// A turn may end within a batch. The batch is fresh until one of its packets was handled.
func TestInboxIndex(t *testing.T) {
	x := inbox{batch: transport.NewBatch(4)}
	x.batch.Trains = x.batch.Trains[:2]
	for _, c := range []struct {
		at            batchIndex
		fresh, unread bool
	}{{batchIndex{}, true, true}, {batchIndex{0, 3}, false, true}, {batchIndex{1, 0}, false, true}, {batchIndex{2, 0}, false, false}} {
		if x.at = c.at; x.fresh() != c.fresh || x.unread() != c.unread {
			t.Errorf("%+v: fresh %v, unread %v, want %v and %v", c.at, x.fresh(), x.unread(), c.fresh, c.unread)
		}
	}
}
