package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// The tests of this file show what forged packets do on a bus without keys: the rows of docs/security.md that the
// simulator's attacker excludes, because they do harm. Each packet must have this effect and no other.
// docs/protocol §19.

// Forged data within the window replaces the genuine packet, and does not change what was delivered.
func TestForgedData(t *testing.T) {
	var got []byte
	l := &log{onPacket: func(_ *Stream, runs []byte) { got = append(got, runs[len(runs)-1]) }}
	r := newReceiver(t, l, nil)
	packet := func(seq uint64, mark byte) []byte {
		p := data(3, seq, 0)
		p[len(p)-1] = mark
		return p
	}
	r.Handle(1, 5, packet(0, 'a'))
	r.Handle(1, 666, packet(0, 'x')) // already delivered
	r.Handle(1, 666, packet(1, 'x')) // before the genuine one
	r.Handle(1, 5, packet(1, 'b'))
	r.Handle(1, 5, packet(2, 'c'))
	if string(got) != "axc" || r.Stats().Duplicates != 2 || len(l.gaps) != 0 {
		t.Errorf("delivered %q, %d duplicates, gaps %v", got, r.Stats().Duplicates, l.gaps)
	}
}

// A forged heartbeat newer than the publisher's ends the stream at its lead, and redirects replies,
// until the publisher's next one.
func TestForgedHeartbeat(t *testing.T) {
	to := func(r *Receiver, now Instant) (peers []uint32) {
		r.Tick(now)
		for {
			peer, _, ok := r.Next(now, nil)
			if !ok {
				return peers
			}
			if !slices.Contains(peers, peer) {
				peers = append(peers, peer)
			}
		}
	}
	solicit := func(at uint64) []byte {
		return heartbeatOf(3, wire.FlagSolicit, wire.Heartbeat{Lead: 1, SentAt: at, Interval: slowHeartbeat})
	}
	r := newReceiver(t, &log{}, nil)
	r.Handle(1, 5, data(3, 0, 0))
	r.Handle(1, 5, solicit(100))
	for i, from := range []uint64{666, 5} {
		r.Handle(2, from, solicit(200+uint64(i)))
		if peers := to(r, Instant(1+i)*Instant(time.Second)); !slices.Equal(peers, []uint32{uint32(from)}) {
			t.Errorf("heartbeat of %d: replies are sent to %v", from, peers)
		}
	}
	l := &log{}
	r = newReceiver(t, l, nil)
	r.Handle(1, 5, data(3, 0, 0))
	r.Handle(1, 666, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 1, SentAt: 100, Interval: slowHeartbeat}))
	r.Tick(Instant(time.Minute))
	if len(l.down) != 1 || len(l.packets) != 1 || len(l.gaps) != 0 {
		t.Errorf("%d streams have ended, %d packets, gaps %v", len(l.down), len(l.packets), l.gaps)
	}
}

// A forged status of a nonexistent receiver blocks the publisher until that receiver is silent. Forged
// receivers count up to MaxReceivers, and none makes the publisher overrun a member that it waits for.
func TestForgedStatus(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.MaxReceivers, c.Silence = 4, 300*time.Millisecond })
	b.status(1, 0, 10, 0)
	b.status(666, 0, 1000, 0) // gives no room beyond the window of the genuine member
	b.status(667, 0, 2, 0)
	if n, why := b.assign(20); n != 2 || why != events.ReasonFlow {
		t.Errorf("assigned %d (%v), want 2", n, why)
	}
	for i := range uint64(100) {
		b.status(1000+i, 0, 2, 0)
	}
	if n := len(b.s.members.list); n != 4 {
		t.Errorf("the publisher waits for %d receivers", n)
	}
	for end := b.now.Add(2 * time.Second); b.now < end; b.now = b.now.Add(10 * time.Millisecond) {
		b.next()
		b.status(1, 2, 12, 0)
	}
	if n, why := b.assign(20); n != 10 || len(b.s.members.list) != 1 {
		t.Errorf("assigned %d (%v), want 10; %d receivers", n, why, len(b.s.members.list))
	}
}

// A status forged in the name of a receiver opens its window, but not beyond the publisher's own window.
func TestForgedWindow(t *testing.T) {
	b := newBench(t, nil)
	b.status(1, 0, 4, 0)
	if n, _ := b.assign(20); n != 4 {
		t.Errorf("assigned %d, want 4", n)
	}
	b.status(1, 4, 1000, 0) // forged
	if n, why := b.assign(200); n != 12 {
		t.Errorf("assigned %d more (%v), want 12: up to the window of 16", n, why)
	}
}
