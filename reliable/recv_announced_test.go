package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// announced returns an announce of topic a.b.
func announced(asOf, next uint64) []byte {
	b := wire.AppendAnnounceHeader(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, asOf, 0, 1)
	b = wire.AppendTopicState(b, wire.TopicID("a.b"), next, "a.b")
	wire.FinishAnnounce(b, 1)
	return b
}

// A late announce of an earlier listing does not settle later losses, even if the preceding one of
// the new listing was received. docs/protocol §9.5.
func TestLateAnnounceOfAnEarlierListing(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(time.Hour)
	row := func(first uint32, asOf uint64, topic string, next uint64) {
		b := wire.AppendAnnounceHeader(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, asOf, first, 3)
		b = wire.AppendTopicState(b, wire.TopicID(topic), next, topic)
		wire.FinishAnnounce(b, 1)
		r.Handle(now, 5, b)
	}
	r.Handle(now, 5, data(3, 0, 0))
	r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, Trail: 2, SentAt: 1})) // packet 1 is lost
	row(0, 4, "x.y", 7)
	row(1, 2, "a.b", 2)
	r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 4, Trail: 4, SentAt: 2})) // 2 and 3 are lost
	row(2, 4, "x.z", 7)
	for _, x := range l.totals {
		if x.Complete {
			t.Errorf("totals are complete, a.b as of %d", l.totals[0].AsOf)
		}
	}
	row(1, 4, "a.b", 4)
	row(2, 4, "x.z", 7)
	if n := len(l.totals); n < 2 || l.totals[n-2].Next != 4 || !l.totals[n-1].Complete {
		t.Errorf("totals %+v", l.totals)
	}
}

// A stream ends after the totals of its topics have arrived. The receiver requests them, and at the
// end they count whatever sequence they are as of. docs/protocol §9.7.
func TestEndRequestsTotals(t *testing.T) {
	for _, c := range []struct {
		name   string
		before bool // the announce arrives before the end
		asOf   uint64
	}{{"after the end", false, 1}, {"before it", true, 1}, {"as of a sequence beyond the end", false, 100}} {
		l := &log{}
		r := newReceiver(t, l, nil)
		now := Instant(time.Hour)
		r.Handle(now, 5, data(3, 0, 0))
		if c.before {
			r.Handle(now, 5, announced(c.asOf, 4))
		}
		r.Handle(now, 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 1, SentAt: 1}))
		if len(l.down) > 0 {
			t.Errorf("%s: ended without the totals", c.name)
		}
		asked := false
		for _, p := range replies(r, now) {
			asked = asked || p.Type == wire.TypeStatus && p.Flags&wire.FlagWantTopics != 0
		}
		if !asked {
			t.Errorf("%s: the totals were not requested", c.name)
		}
		r.Handle(now, 5, announced(c.asOf, 4))
		r.Handle(now, 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 1, SentAt: 2}))
		if !slices.Equal(l.down, []events.Cause{events.CauseNone}) || len(l.totals) != 2 || l.totals[0].Next != 4 || !l.totals[1].Complete {
			t.Errorf("%s: down %v, totals %+v", c.name, l.down, l.totals)
		}
	}
}

// A publisher that is silent after its end has ended, and is not lost: even without its totals, or
// without room in the output. docs/protocol §11.2.
func TestSilenceAfterTheEnd(t *testing.T) {
	const silence = 10 * time.Second
	end := heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 3, SentAt: 1})
	begin := func(l *log, seqs ...uint64) *Receiver {
		r := newReceiver(t, l, nil)
		r.Handle(Instant(time.Hour), 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 0}))
		for _, seq := range seqs {
			r.Handle(Instant(time.Hour), 5, data(3, seq, 0))
		}
		r.Handle(Instant(time.Hour), 5, end)
		r.Tick(Instant(time.Hour))
		return r
	}
	late := Instant(time.Hour).Add(silence)
	t.Run("no totals", func(t *testing.T) {
		l := &log{}
		begin(l, 0, 1, 2).Tick(late)
		if !slices.Equal(l.down, []events.Cause{events.CauseNone}) || len(l.gaps) > 0 {
			t.Errorf("down %v, gaps %v", l.down, l.gaps)
		}
	})
	t.Run("no room", func(t *testing.T) {
		room := false
		l := &log{room: func() bool { return room }}
		r := begin(l, 0, 1, 2)
		for range 3 {
			replies(r, late)
		}
		if len(l.down) > 0 || len(l.packets) > 0 || r.Deadline() <= late {
			t.Errorf("down %v, %d packets, again at %v", l.down, len(l.packets), r.Deadline())
		}
		room = true
		r.Resume(late)
		if !slices.Equal(l.down, []events.Cause{events.CauseNone}) || len(l.packets) != 3 || len(l.gaps) > 0 {
			t.Errorf("with room: down %v, %d packets, gaps %v", l.down, len(l.packets), l.gaps)
		}
	})
	t.Run("received again", func(t *testing.T) {
		room := false
		l := &log{room: func() bool { return room }}
		r := begin(l, 0, 1, 2)
		r.Tick(late)
		r.Handle(late, 5, heartbeatOf(3, wire.FlagEnd|wire.FlagSolicit, wire.Heartbeat{Lead: 3, SentAt: uint64(silence)}))
		if n := len(of(wire.TypeStatus, replies(r, late))); n == 0 {
			t.Error("no reply to a heartbeat after the end")
		}
		if room = true; len(l.up) != 1 {
			t.Errorf("reported up %d times", len(l.up))
		}
		if r.Resume(late); !slices.Equal(l.down, []events.Cause{events.CauseNone}) {
			t.Errorf("down %v", l.down)
		}
	})
}
