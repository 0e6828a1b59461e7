package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

const ms = Instant(time.Millisecond)

// A receiver without topics sends no NAK to a publisher, and leaves. docs/protocol §6.2, §7.7.
func TestUnwantedStreamIsLeft(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(time.Hour)
	r.Handle(now, 1, data(3, 0, 0))
	replies(r, now)
	want(r, now, false)
	naks, goodbyes := 0, 0
	r.Handle(now, 1, data(3, 2, 0)) // packet 1 is missing
	for range 50 {
		now += 10 * ms
		out := replies(r, now)
		naks += len(of(wire.TypeNAK, out))
		for _, p := range of(wire.TypeStatus, out) {
			if p.Flags&wire.FlagLeaving != 0 {
				goodbyes++
			}
		}
	}
	if naks > 0 || goodbyes != farewells {
		t.Errorf("%d NAKs and %d farewells for an unwanted stream, want 0 and %d", naks, goodbyes, farewells)
	}
}

// A stream that was evicted while its publisher was cut off continues where it stopped: packets in
// between are detected as missing. docs/protocol §4.4.
func TestEvictedStreamContinues(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.MaxStreams = 1 })
	now := Instant(time.Hour)
	rest := func() {
		for range 50 {
			now += 100 * ms
			replies(r, now)
		}
	}
	for s := range uint64(5) {
		r.Handle(now, 1, data(3, s, 0))
	}
	rest()
	r.Handle(now, 9, wiretest.Heartbeat(99, 1, 0, wire.Heartbeat{SentAt: 1, Interval: 100 * time.Millisecond}))
	rest()
	r.Handle(now, 1, data(3, 10, 0))
	if out := of(wire.TypeNAK, replies(r, now)); len(out) != 1 {
		t.Fatalf("%d NAKs for packets 5..9, want 1", len(out))
	}
	rest()
	if len(l.gaps) != 1 {
		t.Errorf("gaps %v, want one of packets 5..9", l.gaps)
	}
}

// A stream read by a cursor can also be evicted when its publisher is lost: otherwise crashed
// publishers would gradually displace all new ones. docs/protocol §12.1.
func TestLostStreamWithCursorIsEvicted(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.MaxStreams = 1 })
	now := Instant(time.Hour)
	r.Handle(now, 1, data(3, 0, 0))
	c := attach(r.Streams()[0], true)
	for range 50 {
		now += 100 * ms
		replies(r, now)
	}
	r.Handle(now, 9, wiretest.Heartbeat(99, 1, 0, wire.Heartbeat{SentAt: 1, Interval: 100 * time.Millisecond}))
	if len(r.Streams()) != 1 || r.Streams()[0].Publisher != 99 {
		t.Fatal("the new publisher has no stream")
	}
	ended := false
	for {
		it, _, ok := c.Lease()
		if !ok {
			break
		}
		ended = it.Note != nil && it.Note.(*Event).Kind == EventEnd
		c.Return()
	}
	if !ended {
		t.Error("the end was not reported to the cursor")
	}
}

// If publishers prove their keys, a key that begins as many streams as possible leaves half of them
// to others; streams that are down do not count. docs/protocol §12.1.
func TestStreamsAreShared(t *testing.T) {
	r := newReceiver(t, &log{}, func(c *ReceiverConfig) { c.MaxStreams, c.ProvedKeys = 16, true })
	now := Instant(time.Hour)
	greedy := func(key uint64) int {
		before := len(r.list)
		for i := range uint64(32) {
			r.Handle(now, 1, wiretest.Heartbeat(events.ID(key<<32|2*i|1), 3, 0, wire.Heartbeat{}))
		}
		return len(r.list) - before
	}
	if a, b, c := greedy(1), greedy(2), greedy(3); a != 8 || b != 4 || c != 2 {
		t.Errorf("%d, %d and %d of 16 streams, want half of the remaining ones for each key", a, b, c)
	}
	for range 300 {
		now += 100 * ms
		replies(r, now)
	}
	greedy(4)
	heard := 0
	for _, st := range r.list {
		if !st.life.down && st.signKey() == 4 {
			heard++
		}
	}
	if heard != 8 {
		t.Errorf("%d streams of a key while all others are down, want 8", heard)
	}
}
