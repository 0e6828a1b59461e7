package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Packets may have been waiting since the receive queue was last known to be empty: since a
// poll that found nothing, or since the loop was last done before its deadline.
func TestInboxKnowsSinceWhenPacketsMayWait(t *testing.T) {
	at := func(ms int) reliable.Instant {
		return reliable.Instant(time.Second).Add(time.Duration(ms) * time.Millisecond)
	}
	x := inbox{batch: transport.NewBatch(4), drainedAt: at(50)} // the deadline that it slept for
	x.batch.Trains = append(x.batch.Trains, transport.Train{Data: make([]byte, 10), SegmentSize: 10})
	for _, c := range []struct {
		now     int
		packets int
		stalled bool
	}{{0, 1, false}, {99, 1, false}, {100, 1, true}, {200, 0, false}, {250, 1, false}, {300, 1, true}} {
		x.batch.Trains = x.batch.Trains[:c.packets]
		if n := x.arrived(at(c.now)); n != c.packets || x.stalled(at(c.now)) != c.stalled {
			t.Errorf("after %d ms: %d packets, stalled %v", c.now, n, x.stalled(at(c.now)))
		}
	}
}

// A large packet counts as many of the usual size.
func TestInboxCountsLargePackets(t *testing.T) {
	x := inbox{batch: transport.NewBatch(4)}
	x.batch.Trains = append(x.batch.Trains,
		transport.Train{Data: make([]byte, 8*8192), SegmentSize: 8192},
		transport.Train{Data: make([]byte, 10*usualPacket), SegmentSize: usualPacket},
		transport.Train{Data: make([]byte, 300), SegmentSize: 100})
	if n := x.arrived(aMinute); n != 44+10+3 {
		t.Errorf("%d packets", n)
	}
}

// A turn may end in the middle of a batch: it is fresh until something of it was handled.
func TestInboxPlace(t *testing.T) {
	x := inbox{batch: transport.NewBatch(4)}
	x.batch.Trains = x.batch.Trains[:2]
	for _, c := range []struct {
		at            batchIndex
		fresh, unread bool
	}{{batchIndex{}, true, true}, {batchIndex{0, 3}, false, true}, {batchIndex{1, 0}, false, true}, {batchIndex{2, 0}, false, false}} {
		if x.at = c.at; x.fresh() != c.fresh || x.unread() != c.unread {
			t.Errorf("%+v: fresh %v, unread %v", c.at, x.fresh(), x.unread())
		}
	}
}
