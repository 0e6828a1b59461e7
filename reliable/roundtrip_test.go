package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Whatever echoes are replayed or made up, the round trip stays in bounds, and with it what depends on it: how long a
// silent subscriber is waited for, and heartbeats. docs/protocol §7.8.
func TestRoundTripIsBounded(t *testing.T) {
	t.Run("replayed", func(t *testing.T) {
		b := newBench(t, nil)
		b.publish(1)
		echo := uint64(b.now)
		b.now = b.now.Add(100 * time.Microsecond)
		status := b.statusOf(0, wire.Status{Receiver: 5, Next: 1, Limit: 9, Echo: echo})
		leaving := b.statusOf(wire.FlagLeaving, wire.Status{Receiver: 5, Next: 1, Limit: 9, Echo: echo})
		b.s.Handle(b.now, status, nil)
		b.s.Handle(b.now, leaving, nil)
		before := b.s.RTT()
		for range 300 {
			b.now = b.now.Add(time.Millisecond)
			b.s.Handle(b.now, status, nil)
			b.s.Handle(b.now, leaving, nil)
		}
		if after := b.s.RTT(); before != 100*time.Microsecond || after != before {
			t.Errorf("the round trip was %v; replays made it %v", before, after)
		}
	})
	for name, age := range map[string]time.Duration{"long ago": 59 * time.Second, "lately": staleStatus - time.Millisecond} {
		t.Run("made up, "+name, func(t *testing.T) {
			b := newBench(t, nil)
			b.publish(1)
			b.now = b.now.Add(2 * time.Minute)
			b.next()
			for i := range uint64(300) {
				b.s.Handle(b.now, b.statusOf(0, wire.Status{Receiver: 1000 + i, Next: 0, Limit: 1, Echo: uint64(b.now.Add(-age))}), nil)
				b.status(1000+i, 0, 1, wire.FlagLeaving)
				b.s.Handle(b.now, b.statusOf(wire.FlagLeaving, wire.Status{Receiver: 1000 + i, Next: 0, Limit: 1, Echo: uint64(b.now.Add(-age)), EchoDelay: 1}), nil)
			}
			if rtt := b.s.RTT(); rtt > farRTT {
				t.Errorf("the round trip is %v", rtt)
			}
			b.status(5000, 0, 1, 0) // without room, and says nothing any more
			b.put(b.topic("a.b"), 100)
			start, last, longest := b.now, b.now, time.Duration(0)
			for b.s.Assign(b.now, b.w, true) == events.ReasonFlow {
				if len(of(wire.TypeHeartbeat, b.next())) > 0 {
					longest, last = max(longest, b.now.Sub(last)), b.now
				}
				if b.now = b.now.Add(time.Millisecond); b.now.Sub(start) > time.Hour {
					t.Fatal("it is never released")
				}
			}
			if longest > slowHeartbeat+time.Millisecond {
				t.Errorf("no heartbeat for %v", longest)
			}
			if d := b.now.Sub(start); d > silenceRTTs*farRTT+time.Second {
				t.Errorf("blocked for %v by a subscriber that says nothing", d)
			}
		})
	}
}
