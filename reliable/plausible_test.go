package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A single packet far ahead is ignored; a jump confirmed by a second packet is accepted. docs/protocol §9.4, §19.1.
func TestReceiverRefusesFarPackets(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	r.Handle(1, 5, data(3, 0, 0))
	r.Handle(1, 5, data(3, 5000, 0))
	r.Handle(1, 5, data(3, 1<<40, 0))
	r.Handle(1, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 1 << 40}))
	r.Handle(1, 5, data(3, 1, 0))
	if len(l.packets) != 2 || len(l.gaps) != 0 || r.Stats().Implausible != 2 {
		t.Fatalf("%d packets, gaps %v, %d implausible", len(l.packets), l.gaps, r.Stats().Implausible)
	}
	for seq := uint64(100); seq < 110; seq++ {
		r.Handle(1, 5, data(3, seq, 0))
	}
	if len(l.gaps) != 1 || l.gaps[0][0] != 2 || l.gaps[0][2] != uint64(events.CauseOverrun) {
		t.Errorf("gaps %v", l.gaps)
	}
}

// A receiver was cut off for so long that its publisher is further ahead than plausible for a live
// stream. It continues after a gap once two data packets or heartbeats show the new sequence; a
// single packet far ahead, even if repeated, is not enough. docs/protocol §9.4.
func TestReceiverContinuesAfterALongCut(t *testing.T) {
	const lead = 10 * jumpPackets
	for name, again := range map[string]func(i uint64) []byte{
		"data": func(i uint64) []byte { return data(3, lead+i, 0) },
		"heartbeats": func(i uint64) []byte {
			return heartbeatOf(3, 0, wire.Heartbeat{Lead: lead, Trail: lead - 16, SentAt: 9 + i})
		},
		"one packet":    func(uint64) []byte { return data(3, lead, 0) },
		"one heartbeat": func(uint64) []byte { return heartbeatOf(3, 0, wire.Heartbeat{Lead: lead, Trail: lead - 16, SentAt: 9}) },
		"scattered":     func(i uint64) []byte { return data(3, lead+i*i*1000, 0) },
	} {
		l := &log{}
		r := newReceiver(t, l, nil)
		now := Instant(1)
		r.Handle(now, 5, data(3, 0, 0))
		r.Handle(now, 5, again(0)) // implausible while the stream is up
		r.Handle(now, 5, again(1))
		replies(r, now)
		if r.Stats().Implausible != 2 || len(l.gaps) != 0 {
			t.Errorf("%s: gaps %v, %+v", name, l.gaps, r.Stats())
		}
		for i := uint64(2); len(l.down) == 0; i++ { // it does not keep the stream alive
			if now = now.Add(100 * time.Millisecond); now > Instant(time.Minute) {
				t.Fatalf("%s: never lost", name)
			}
			r.Handle(now, 5, again(i))
			replies(r, now)
		}
		for i := uint64(1000); i < 1005; i++ {
			now += ms
			r.Handle(now, 5, again(i))
			replies(r, now)
		}
		// Of heartbeats the first is no forgery, whether another one confirms it or not.
		if n := r.Stats().FarAhead; n != map[string]uint64{"heartbeats": 1, "one heartbeat": 1}[name] {
			t.Errorf("%s: %d are the first from far ahead", name, n)
		}
		reported := uint64(0)
		for _, g := range l.gaps {
			reported += g[1]
		}
		st := r.Streams()[0]
		if name == "data" || name == "heartbeats" {
			if len(l.up) != 2 || st.next < lead-100 || reported != st.next-uint64(len(l.packets)) {
				t.Errorf("%s: up %d times, next is %d, gaps %v", name, len(l.up), st.next, l.gaps)
			}
			continue
		}
		if len(l.up) != 1 || st.next != 1 || len(l.gaps) != 0 {
			t.Errorf("%s: up %d times, next is %d, gaps %v", name, len(l.up), st.next, l.gaps)
		}
	}
}

// A heartbeat with a lead more than a window ahead is accepted only after another one, or a data
// packet near it. docs/protocol §9.4.
func TestReceiverRefusesHeartbeatsFromFarAway(t *testing.T) {
	for name, second := range map[string][]byte{
		"a copy":         heartbeatOf(3, 0, wire.Heartbeat{Lead: 5000, Trail: 4990, SentAt: 1}),
		"another lead":   heartbeatOf(3, 0, wire.Heartbeat{Lead: 5000 + 2*nearPackets, SentAt: 2}),
		"the known lead": heartbeatOf(3, 0, wire.Heartbeat{Lead: 1, SentAt: 2}),
		"the next":       heartbeatOf(3, 0, wire.Heartbeat{Lead: 5000, Trail: 4990, SentAt: 2}),
		"a later lead":   heartbeatOf(3, 0, wire.Heartbeat{Lead: 6000, Trail: 4990, SentAt: 2}),
		"data":           data(3, 5001, 0),
	} {
		l := &log{}
		r := newReceiver(t, l, nil)
		r.Handle(1, 5, data(3, 0, 0))
		r.Handle(1, 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 5000, Trail: 4990, SentAt: 1}))
		st := r.Streams()[0]
		if st.high != 1 || st.life.ended {
			t.Errorf("%s: a single heartbeat is accepted", name)
		}
		r.Handle(2, 5, second)
		confirms := name == "the next" || name == "a later lead" || name == "data"
		if got := st.high >= 5000; got != confirms {
			t.Errorf("%s: accepted %v; %+v", name, got, r.Stats())
		}
		if confirms {
			reported := uint64(0)
			for _, g := range l.gaps {
				reported += g[1]
			}
			if st.next < 4000 || reported != st.next-1 {
				t.Errorf("%s: gaps %v, next is %d", name, l.gaps, st.next)
			}
			continue
		}
		for seq := range uint64(100) {
			r.Handle(3, 5, data(3, seq, 0))
		}
		if len(l.packets) != 100 || len(l.gaps) != 0 {
			t.Errorf("%s: %d packets are delivered, gaps %v", name, len(l.packets), l.gaps)
		}
	}
}

// NCFs delay NAKs, but not permanently: an NCF may be replayed repeatedly. docs/protocol §6.6.
func TestReceiverSendsNAKsDespiteNCFs(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(1)
	r.Handle(now, 5, data(3, 0, 0))
	r.Handle(now, 5, data(3, 2, 0))
	var b wire.RangesBuilder
	b.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeNCF, 0, 1, wire.ReasonQueued, 20*time.Millisecond, 400)
	b.Add(1, 1)
	ncf := b.Finish()
	naks := len(of(wire.TypeNAK, replies(r, now)))
	for len(l.gaps) == 0 && now < Instant(time.Minute) {
		now += ms
		r.Handle(now, 5, ncf)
		naks += len(of(wire.TypeNAK, replies(r, now)))
	}
	if most := int(r.cfg.Deadline/maxDefer) + 1; naks < most/2 || naks > most {
		t.Errorf("%d NAKs until the deadline with continuous NCFs, want %d to %d", naks, most/2, most)
	}
}

// A forged heartbeat with an implausibly long interval does not hide the loss of the publisher. docs/protocol §5.4.
func TestReceiverBoundsTheHeartbeatInterval(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(1)
	r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{SentAt: 1, Interval: time.Hour}))
	for len(l.down) == 0 {
		if replies(r, now); now.Sub(1) > lostHeartbeats*maxHeartbeat+time.Second {
			t.Fatalf("not lost after %v", now.Sub(1))
		}
		now = max(now+1, r.Deadline())
	}
}

// Replayed packets neither keep a lost publisher alive nor bring it back; heartbeats of an idle one
// do keep it alive. docs/protocol §5.9, §11.3, §13.5.
func TestReplaysDoNotKeepAPublisherAlive(t *testing.T) {
	var ncf wire.RangesBuilder
	ncf.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeNCF, 0, 0, wire.ReasonQueued, time.Millisecond, 400)
	ncf.Add(0, 1)
	newest := wire.Heartbeat{Lead: 2, SentAt: 2}
	for name, b := range map[string][]byte{
		"data":                    data(3, 1, 0),
		"repair":                  data(3, 1, wire.FlagRepair),
		"the newest heartbeat":    heartbeatOf(3, 0, newest),
		"an older heartbeat":      heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: 1}),
		"NCF":                     ncf.Finish(),
		"heartbeat from far away": heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: 1 << 60}),
	} {
		l := &log{}
		r := newReceiver(t, l, nil)
		now := Instant(1)
		r.Handle(now, 5, data(3, 0, 0))
		r.Handle(now, 5, data(3, 1, 0))
		r.Handle(now, 5, heartbeatOf(3, 0, newest))
		for range 100 {
			now = now.Add(100 * time.Millisecond)
			r.Handle(now, 6, b)
			replies(r, now)
		}
		if len(l.down) != 1 || len(l.up) != 1 {
			t.Errorf("%s: up %d times, down %d", name, len(l.up), len(l.down))
		}
		if len(r.Streams()) == 0 || r.Streams()[0].path.peer != 5 {
			t.Errorf("%s: replies are sent to another peer", name)
		}
	}
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(1)
	for i := range 100 {
		now = now.Add(time.Second)
		r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: uint64(now) + 7, Interval: time.Second}))
		if i == 50 { // one that would make all others old
			r.Handle(now, 6, heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: 1 << 60, Interval: time.Second}))
		}
		replies(r, now)
	}
	if len(l.down) != 0 || r.Streams()[0].path.peer != 5 {
		t.Errorf("idle: down %v, replies are sent to %d", l.down, r.Streams()[0].path.peer)
	}
	// The publisher continued while the receiver stood still.
	for range 3 {
		now = now.Add(time.Second)
		r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: uint64(now) + uint64(time.Hour), Interval: time.Second}))
		replies(r, now)
	}
	if st := r.Streams()[0]; st.life.heard != r.up(now) || st.clock.newest < uint64(time.Hour) {
		t.Errorf("last packet at %d, want %d; newest heartbeat sent at %d, want at least %d", st.life.heard, r.up(now), st.clock.newest, uint64(time.Hour))
	}
}

func TestSequenceGuard(t *testing.T) {
	const near = 100
	for _, c := range []struct {
		name     string
		reported [][2]uint64 // sequence, SentAt
		want     bool        // whether the last one is confirmed
	}{
		{"one", [][2]uint64{{5000, 1}}, false},
		{"another one near it", [][2]uint64{{5000, 1}, {5000 + near, 2}}, true},
		{"another before it", [][2]uint64{{5000, 1}, {5000 - near, 2}}, true},
		{"another further on", [][2]uint64{{5000, 1}, {5001 + near, 2}}, false},
		{"another further back", [][2]uint64{{5000, 1}, {4999 - near, 2}}, false},
		{"the same packet", [][2]uint64{{5000, 1}, {5000, 1}}, false},
		{"the same sequence, another heartbeat", [][2]uint64{{5000, 1}, {5000, 2}}, true},
		{"the latest counts", [][2]uint64{{5000, 1}, {9000, 2}, {5000, 3}}, false},
		{"a third one", [][2]uint64{{5000, 1}, {5000, 2}, {5000, 3}}, false},
		{"sequence zero", [][2]uint64{{0, 1}, {0, 2}}, true},
	} {
		var g sequenceGuard
		got := false
		for _, x := range c.reported {
			got = g.confirmed(x[0], x[1], near)
		}
		if got != c.want {
			t.Errorf("%s: confirmed is %v", c.name, got)
		}
	}
	var g sequenceGuard
	if g.impossible(jumpPackets+7, 7, false) || !g.impossible(jumpPackets+8, 7, false) || g.impossible(jumpPackets+8, 7, true) || g.impossible(1, 7, false) {
		t.Error("wrong limit of a jump")
	}
}
