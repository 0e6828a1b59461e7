package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// One packet from far away is damage; a jump that is confirmed is accepted.
// docs/protocol §9.4, §19.1.
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

// A receiver that was cut off for so long that its publisher went on by more than is
// plausible of a running stream goes on behind a gap, by data as by heartbeats alone; a
// single packet from there, or one again and again, is not enough.
// docs/protocol §9.4.
func TestReceiverGoesOnAfterALongCut(t *testing.T) {
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
		r.Handle(now, 5, again(0)) // while it runs nothing makes that plausible
		r.Handle(now, 5, again(1))
		replies(r, now)
		if r.Stats().Implausible != 2 || len(l.gaps) != 0 {
			t.Errorf("%s: gaps %v, %+v", name, l.gaps, r.Stats())
		}
		for i := uint64(2); len(l.down) == 0; i++ { // nor does it keep the stream alive
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

// A heartbeat with a lead more than a window ahead is not accepted alone; with another one, or a data packet from
// there, it is. docs/protocol §9.4.
func TestReceiverRefusesHeartbeatsFromFarAway(t *testing.T) {
	for name, second := range map[string][]byte{
		"the same again": heartbeatOf(3, 0, wire.Heartbeat{Lead: 5000, Trail: 4990, SentAt: 1}),
		"from elsewhere": heartbeatOf(3, 0, wire.Heartbeat{Lead: 5000 + 2*nearPackets, SentAt: 2}),
		"from here":      heartbeatOf(3, 0, wire.Heartbeat{Lead: 1, SentAt: 2}),
		"the next":       heartbeatOf(3, 0, wire.Heartbeat{Lead: 5000, Trail: 4990, SentAt: 2}),
		"further on":     heartbeatOf(3, 0, wire.Heartbeat{Lead: 6000, Trail: 4990, SentAt: 2}),
		"data":           data(3, 5001, 0),
	} {
		l := &log{}
		r := newReceiver(t, l, nil)
		r.Handle(1, 5, data(3, 0, 0))
		r.Handle(1, 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 5000, Trail: 4990, SentAt: 1}))
		st := r.Streams()[0]
		if st.high != 1 || st.life.ended {
			t.Errorf("%s: one heartbeat is accepted", name)
		}
		r.Handle(2, 5, second)
		confirms := name == "the next" || name == "further on" || name == "data"
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

// An announce as of a sequence that cannot be leaves the question open which topics
// lost what: the true ones answer it.
// docs/protocol §9.3.
func TestReceiverRefusesAnnouncesFromFarAway(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	r.Handle(1, 5, data(3, 0, 0))
	r.Handle(1, 5, data(3, 2, 0))
	r.Handle(1, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 3, Trail: 2, SentAt: 1}))
	for _, asOf := range []uint64{wire.MaxSeq, 4 + assignedPackets} {
		r.Handle(1, 5, announce(3, asOf, wire.TopicID("a.b"), "a.b"))
	}
	if len(l.totals) != 0 || r.Stats().Implausible != 2 {
		t.Errorf("reported %v, %+v", l.totals, r.Stats())
	}
	if st := of(wire.TypeStatus, replies(r, 1)); len(st) != 1 || st[0].Flags&wire.FlagWantTopics == 0 {
		t.Errorf("statuses %v", st)
	}
	r.Handle(1, 5, announce(3, 3, wire.TopicID("a.b"), "a.b"))
	if len(l.totals) != 2 {
		t.Errorf("reported %v", l.totals)
	}
}

// NCFs delay NAKs, but not permanently: an NCF may be replayed again and again. docs/protocol §6.6.
func TestReceiverAsksInSpiteOfNCFs(t *testing.T) {
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
		t.Errorf("%d NAKs until the deadline, under NCFs without end", naks)
	}
}

// A heartbeat that claims an interval no publisher has does not hide that its
// publisher is gone.
// docs/protocol §5.4.
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

// Packets that came before, repeated again and again, neither keep a publisher alive
// that is gone nor bring it back; those of one that is idle do keep it.
// docs/protocol §5.9, §11.3, §13.5.
func TestReceiverTakesReplaysForNoSignOfLife(t *testing.T) {
	var ncf wire.RangesBuilder
	ncf.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeNCF, 0, 0, wire.ReasonQueued, time.Millisecond, 400)
	ncf.Add(0, 1)
	newest := wire.Heartbeat{Lead: 2, SentAt: 2}
	for name, b := range map[string][]byte{
		"data":                    data(3, 1, 0),
		"repair":                  data(3, 1, wire.FlagRepair),
		"the newest heartbeat":    heartbeatOf(3, 0, newest),
		"an older heartbeat":      heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: 1}),
		"announce":                announce(3, 2, wire.TopicID("a.b"), "a.b"),
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
			t.Errorf("%s: replies go elsewhere", name)
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
		t.Errorf("idle: down %v, replies go to %d", l.down, r.Streams()[0].path.peer)
	}
	// The publisher has not stood still while we did.
	for range 3 {
		now = now.Add(time.Second)
		r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: uint64(now) + uint64(time.Hour), Interval: time.Second}))
		replies(r, now)
	}
	if st := r.Streams()[0]; st.life.heard != r.up(now) || st.clock.newest < uint64(time.Hour) {
		t.Errorf("heard at %d, it is %d", st.life.heard, now)
	}
}

func TestSequenceGuard(t *testing.T) {
	const near = 100
	for _, c := range []struct {
		name     string
		reported [][2]uint64 // sequence, SentAt
		want     bool        // that the last one is confirmed
	}{
		{"one", [][2]uint64{{5000, 1}}, false},
		{"another near it", [][2]uint64{{5000, 1}, {5000 + near, 2}}, true},
		{"another before it", [][2]uint64{{5000, 1}, {5000 - near, 2}}, true},
		{"another further on", [][2]uint64{{5000, 1}, {5001 + near, 2}}, false},
		{"another further back", [][2]uint64{{5000, 1}, {4999 - near, 2}}, false},
		{"the same packet", [][2]uint64{{5000, 1}, {5000, 1}}, false},
		{"the same sequence, another heartbeat", [][2]uint64{{5000, 1}, {5000, 2}}, true},
		{"the latest counts", [][2]uint64{{5000, 1}, {9000, 2}, {5000, 3}}, false},
		{"it is sure again", [][2]uint64{{5000, 1}, {5000, 2}, {5000, 3}}, false},
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
		t.Error("the bound of a jump")
	}
	if !g.assigned(7, 7) || !g.assigned(7+assignedPackets, 7) || g.assigned(8+assignedPackets, 7) || !g.assigned(0, 7) {
		t.Error("the bound of what was assigned")
	}
}
