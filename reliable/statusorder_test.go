package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// statusOf returns a status of a receiver that answers a heartbeat sent at echo.
func (b *bench) statusOf(flags wire.Flags, st wire.Status) []byte {
	h := b.header()
	h.Flags = flags
	return wire.AppendStatus(nil, h, &st, nil)
}

// run publishes as much as is admitted for d, calls each every 100 ms, and returns the number of packets.
func (b *bench) run(d time.Duration, each func()) uint64 {
	x := b.topic("a.b")
	before, start := b.s.win.sent, b.now
	for i := 0; b.now.Sub(start) < d; i++ {
		if i%100 == 0 {
			each()
		}
		if b.s.Grant(b.w.Packets) && !b.w.Pending() {
			b.w.Append(x, make([]byte, 100))
		}
		b.s.Assign(b.now, b.w, true)
		b.next()
		b.now = b.now.Add(time.Millisecond)
	}
	return b.s.win.sent - before
}

// A replayed status from before a subscriber left does not block a publisher: not at once, not
// later, and not after its release. docs/protocol §7.5, §8.5, §13.5.
func TestReplayedStatusBlocksNoPublisher(t *testing.T) {
	for name, echo := range map[string]uint64{"with an echo": uint64(time.Hour), "without one": 0} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.publish(1)
			b.now = b.now.Add(time.Millisecond)
			status := b.statusOf(0, wire.Status{Receiver: 5, Next: 1, Limit: 2, Echo: echo, EchoDelay: 10 * time.Microsecond})
			replay := func() { b.s.Handle(b.now, status, nil) }
			replay()
			b.s.Handle(b.now, b.statusOf(wire.FlagLeaving, wire.Status{Receiver: 5, Next: 1, Limit: 2, Echo: echo, EchoDelay: 20 * time.Microsecond}), nil)
			if n := b.run(3*time.Second, replay); n < 2500 {
				t.Errorf("%d packets in 3 s while a status from before the leave is replayed", n)
			}
			if st := b.s.Stats(); st.ReceiversJoined != 1 || st.StatusesStale < 25 {
				t.Errorf("%d joined, %d stale", st.ReceiversJoined, st.StatusesStale)
			}
		})
	}
	for name, echo := range map[string]uint64{"of one that was killed": uint64(time.Hour), "of one that was killed before the first heartbeat": 0} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.publish(1)
			b.now = b.now.Add(time.Millisecond)
			status := b.statusOf(0, wire.Status{Receiver: 5, Next: 1, Limit: 2, Echo: echo})
			var nak wire.RangesBuilder
			nak.Begin(nil, b.header(), wire.TypeNAK, 5, 1, wire.ReasonNone, 0, 400)
			nak.Add(1, 1)
			asked := nak.Finish()
			replay := func() { b.s.Handle(b.now, status, nil); b.s.Handle(b.now, asked, nil) }
			if b.run(repeatedLife+staleStatus+2*time.Second, replay); b.s.Stats().ReceiversSilent != 1 {
				t.Errorf("%d released", b.s.Stats().ReceiversSilent)
			}
			if n := b.run(2*time.Second, replay); n < 1500 {
				t.Errorf("%d packets in 2 s while the last status and NAK of a released subscriber are replayed", n)
			}
		})
	}
	t.Run("of one long forgotten", func(t *testing.T) {
		b := newBench(t, nil)
		status := b.statusOf(0, wire.Status{Receiver: 1 << 20, Next: 0, Limit: 1, Echo: uint64(b.now)})
		b.s.Handle(b.now, status, nil)
		b.status(1<<20, 0, 1, wire.FlagLeaving) // an older leave: it stays
		if len(b.s.members.list) != 1 {
			t.Error("an older leave has removed a subscriber")
		}
		b.s.Handle(b.now, b.statusOf(wire.FlagLeaving, wire.Status{Receiver: 1 << 20, Next: 0, Limit: 1, Echo: uint64(b.now)}), nil)
		for id := range uint64(2 * farewellsKept) {
			b.status(id, 0, 100, 0)
			b.status(id, 0, 100, wire.FlagLeaving)
		}
		b.now = b.now.Add(staleStatus + 1)
		if b.s.Handle(b.now, status, nil); len(b.s.members.list) != 0 {
			t.Error("an old status has added it again")
		}
	})
}

// A receiver that returns after it left, or after it was released, becomes a member. docs/protocol §8.4, §8.5.
func TestSubscriberReturns(t *testing.T) {
	b := newBench(t, nil)
	b.publish(3)
	echo := uint64(b.now)
	join := func(st wire.Status, want int) {
		t.Helper()
		st.Receiver, st.Limit = 5, 9
		if b.s.Handle(b.now, b.statusOf(0, st), nil); len(b.s.members.list) != want {
			t.Errorf("%d subscribers after %+v, want %d", len(b.s.members.list), st, want)
		}
	}
	b.now = b.now.Add(time.Millisecond)
	join(wire.Status{Next: 1, Echo: echo, EchoDelay: 10}, 1)
	farewell := b.statusOf(wire.FlagLeaving, wire.Status{Receiver: 5, Next: 2, Limit: 9, Echo: echo, EchoDelay: 20})
	b.s.Handle(b.now, farewell, nil)
	join(wire.Status{Next: 2, Echo: echo, EchoDelay: 20}, 0)
	join(wire.Status{Next: 2, Echo: echo, EchoDelay: 15}, 0)
	join(wire.Status{Next: 1, Echo: echo + 1, EchoDelay: 15}, 0)
	join(wire.Status{Next: 2, Echo: echo, EchoDelay: 21}, 1)
	if b.s.Handle(b.now, farewell, nil); len(b.s.members.list) != 1 {
		t.Error("its earlier leave, replayed, has removed it")
	}
	for range 2000 { // it is silent, and solicited
		b.s.Hurry(b.now, true)
		b.next()
		b.now = b.now.Add(time.Millisecond)
	}
	if len(b.s.members.list) != 0 {
		t.Error("it was not released")
	}
	join(wire.Status{Next: 2, Echo: uint64(b.now)}, 1)
}

// A status older than the newest one does not keep a member alive, and reverts nothing; nor does
// one from the future. docs/protocol §7.5, §8.5.
func TestOlderStatusRevertsNothing(t *testing.T) {
	b, x := newBench(t, nil), &sendControl{}
	b.s.SetControl(x)
	b.publish(1)
	b.next()
	b.now = b.now.Add(time.Millisecond)
	echo := uint64(b.now)
	older := b.statusOf(wire.FlagWantTopics, wire.Status{Receiver: 5, Next: 1, Limit: 20, Echo: echo - 1000})
	b.s.Handle(b.now, b.statusOf(0, wire.Status{Receiver: 5, Next: 1, Limit: 9, Echo: echo}), nil)
	b.s.Handle(b.now, b.statusOf(0, wire.Status{Receiver: 5, Next: 1, Limit: 9, Echo: echo + uint64(time.Hour)}), nil)
	m := b.s.members.byID[5]
	at := b.now
	b.now = b.now.Add(time.Millisecond)
	b.s.Handle(b.now, older, nil)
	if m.heard != b.s.up(at) || x.flags != 0 || m.Limit != 20 {
		t.Errorf("received after %v, flags %v, limit %d", m.heard.sub(b.s.up(at)), x.flags, m.Limit)
	}
	b.s.Handle(b.now, b.statusOf(wire.FlagWantTopics, wire.Status{Receiver: 5, Next: 1, Limit: 9, Echo: echo, EchoDelay: time.Millisecond}), nil)
	if m.heard != b.s.up(b.now) || x.flags != wire.FlagWantTopics {
		t.Error("a newer status does not count")
	}
}

// A copy of a heartbeat does not change the echo delay: otherwise statuses would appear to be in
// another order. docs/protocol §7.4.
func TestCopiedHeartbeatDoesNotChangeTheEcho(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(time.Hour)
	hb := heartbeatOf(3, wire.FlagSolicit, wire.Heartbeat{SentAt: 1, Interval: slowHeartbeat})
	r.Handle(now, 1, hb)
	replies(r, now)
	now = now.Add(30 * time.Millisecond)
	r.Handle(now, 1, hb)
	ps := of(wire.TypeStatus, replies(r, now))
	if len(ps) == 0 {
		t.Fatal("no status")
	}
	if st, err := wire.ParseStatus(ps[0].b); err != nil || st.Echo != 1 || st.EchoDelay != 30*time.Millisecond {
		t.Errorf("echo %d after %v, %v", st.Echo, st.EchoDelay, err)
	}
}
