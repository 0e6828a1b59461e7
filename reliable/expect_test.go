package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// No heartbeat of the ladder is sent while more data is expected; if none is sent by then, a
// heartbeat is sent at once. protocol §5.2.
func TestNoHeartbeatBeforeExpectedData(t *testing.T) {
	b := newBench(t, nil)
	x := b.topic("x")
	b.publish(1)
	b.put(x, 10)
	b.s.Assign(b.now, b.w, true)
	b.next()
	sent := b.now
	b.s.Expect(sent.Add(2 * time.Millisecond))
	for b.now < sent.Add(2*time.Millisecond) {
		if heartbeats := of(wire.TypeHeartbeat, b.next()); len(heartbeats) > 0 {
			t.Fatalf("a heartbeat %v after data, although more is expected", b.now.Sub(sent))
		}
		if due := b.s.Deadline(); due > sent.Add(2*time.Millisecond) {
			t.Fatalf("the deadline is %v after data", due.Sub(sent))
		}
		b.now = b.now.Add(50 * time.Microsecond)
	}
	if heartbeats := of(wire.TypeHeartbeat, b.next()); len(heartbeats) != 1 {
		t.Errorf("%d heartbeats after expected data was not sent", len(heartbeats))
	}
}

// A block that is ended before it is full begins no further packet, and its memory is reused when
// the window has passed it.
func TestRetire(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.MaxTrain, c.MaxTrainBytes = 8, 8*c.PacketSize })
	x := b.topic("x")
	for i := range uint64(500) {
		b.put(x, 100)
		b.s.Assign(b.now, b.w, true)
		b.next()
		b.s.Retire(b.w.Packets, false)
		if !b.s.Grant(b.w.Packets) || b.w.Rest() != b.s.blocks.perBlock {
			t.Fatalf("no new block after %d packets", i)
		}
		if b.w.Assigned() != i+1 || b.w.Closed() != i+1 {
			t.Fatalf("%d packets closed and %d assigned, want %d", b.w.Closed(), b.w.Assigned(), i+1)
		}
	}
}
