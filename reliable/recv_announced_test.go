package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A total shows what a topic lacks. Where no packet was lost since its last message it is
// the publisher's fault.
// docs/protocol.md §9.7, §10.3.
func TestTotalsTellFaults(t *testing.T) {
	const x = 1
	first := run(nil, x, 0, 1, 1)
	for _, c := range []struct {
		name   string
		steps  func(rd *Reader)
		last   Item // what comes of the total
		faults []events.Fault
	}{
		{"as many as came", func(rd *Reader) { rd.Packet(first); items(rd); rd.Total(TopicTotal{ID: x, Next: 2}) }, Item{}, nil},
		{"more than came", func(rd *Reader) { rd.Packet(first); items(rd); rd.Total(TopicTotal{ID: x, Next: 5}) },
			Item{Number: 2, Lost: 3, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"some where nothing came", func(rd *Reader) { rd.Total(TopicTotal{ID: x, Next: 5}) },
			Item{Lost: 5, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"more, and packets were lost", func(rd *Reader) {
			rd.Packet(first)
			items(rd)
			rd.Skip(1, events.CauseGone)
			rd.Total(TopicTotal{ID: x, Next: 5})
		},
			Item{Number: 2, Lost: 3, Cause: events.CauseGone}, nil},
		{"more than lost packets can have held", func(rd *Reader) {
			rd.Packet(first)
			items(rd)
			rd.Skip(1, events.CauseGone)
			rd.Total(TopicTotal{ID: x, Next: 1 << 61})
		}, Item{Number: 2, Unknown: true, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
	} {
		rd := NewReader(0, 100)
		rd.Want(x, "x", nil)
		var faults []events.Fault
		rd.TellFaults(func(err *events.FaultError) { faults = append(faults, err.Fault) })
		c.steps(rd)
		var it Item
		if !rd.Next(&it) {
			it = Item{}
		}
		it.Topic = nil
		if it.Number != c.last.Number || it.Lost != c.last.Lost || it.Unknown != c.last.Unknown || it.Cause != c.last.Cause || !slices.Equal(faults, c.faults) {
			t.Errorf("%s: %+v, want %+v; faults %v, want %v", c.name, it, c.last, faults, c.faults)
		}
		if it.Unknown { // a forged one takes nothing from what follows
			rd.Packet(run(nil, x, 3, 1))
			if got := items(rd); !slices.Equal(got, []string{"x:lost 2+1", "x:3"}) {
				t.Errorf("%s: then %v", c.name, got)
			}
		}
	}
}

// A number that no lost packet explains is accepted when a later packet goes on with it.
// docs/protocol.md §10.7.
func TestImplausibleNumbers(t *testing.T) {
	const x, y, far = 1, 2, 1 << 61
	type step struct {
		packet []byte
		lost   uint64
		want   []string
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"one packet", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, 1, 1), want: []string{"x:1"}},
		}},
		{"another topic in its packet", []step{
			{packet: run(run(nil, x, far, 1), y, 0, 1), want: []string{"y:0"}},
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
		}},
		{"twice in a packet", []step{
			{packet: run(run(nil, x, far, 1), x, far+1, 1)},
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
		}},
		{"a publisher that numbers so", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, far+1, 1), want: []string{"x:lost 1+2305843009213693952", "x:2305843009213693953"}},
		}},
		{"two that do not follow each other", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, far/2, 1)},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, 1, 1), want: []string{"x:1"}},
		}},
		{"what lost packets can have held", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{lost: 2},
			{packet: run(nil, x, 1+3*mostMessages, 1), want: []string{"x:lost 1+98157", "x:98158"}},
		}},
		{"one more", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{lost: 2},
			{packet: run(nil, x, 2+3*mostMessages, 1)},
		}},
	} {
		rd := NewReader(0, 100)
		rd.Want(x, "x", nil)
		rd.Want(y, "y", nil)
		for i, s := range c.steps {
			if s.lost > 0 {
				rd.Skip(s.lost, events.CauseGone)
			} else {
				rd.Packet(s.packet)
			}
			if got := items(rd); !slices.Equal(got, s.want) {
				t.Errorf("%s, step %d: %v, want %v", c.name, i, got, s.want)
			}
		}
	}
}

// A total from which a topic is first known says nothing against messages that come.
// docs/protocol.md §10.7.
func TestTotalOfUnknownTopic(t *testing.T) {
	const x = 1
	rd := NewReader(10, 100)
	rd.Want(x, "x", nil)
	rd.Total(TopicTotal{ID: x, Next: 1 << 61})
	if got := items(rd); got != nil {
		t.Errorf("the total: %v", got)
	}
	rd.Packet(run(nil, x, 7, 1))
	if got := items(rd); !slices.Equal(got, []string{"x:7"}) {
		t.Errorf("a message: %v", got)
	}
}

// announced is an announce of topic a.b.
func announced(asOf, next uint64) []byte {
	b := wire.AppendAnnounceHeader(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, asOf, 0, 1)
	b = wire.AppendTopicState(b, TopicID("a.b"), next, "a.b")
	wire.FinishAnnounce(b, 1)
	return b
}

// The end of a stream waits for the totals, which are asked for, and are reached there
// whatever place they are of.
// docs/protocol.md §9.7.
func TestEndAsksForTotals(t *testing.T) {
	for _, c := range []struct {
		name   string
		before bool // the announce comes before the end
		asOf   uint64
	}{{"behind the end", false, 1}, {"before it", true, 1}, {"of a place that never comes", false, 100}} {
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
			t.Errorf("%s: the totals were not asked for", c.name)
		}
		r.Handle(now, 5, announced(c.asOf, 4))
		r.Handle(now, 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 1, SentAt: 2}))
		if !slices.Equal(l.down, []events.Cause{events.CauseNone}) || len(l.totals) != 2 || l.totals[0].Next != 4 || !l.totals[1].Complete {
			t.Errorf("%s: down %v, totals %+v", c.name, l.down, l.totals)
		}
	}
}

// A publisher that falls silent after its end has ended, and is not lost: also where its
// totals do not come, and where the output has no room.
// docs/protocol.md §11.2.
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
	t.Run("heard again", func(t *testing.T) {
		room := false
		l := &log{room: func() bool { return room }}
		r := begin(l, 0, 1, 2)
		r.Tick(late)
		r.Handle(late, 5, heartbeatOf(3, wire.FlagEnd|wire.FlagSolicit, wire.Heartbeat{Lead: 3, SentAt: uint64(silence)}))
		if n := len(of(wire.TypeStatus, replies(r, late))); n == 0 {
			t.Error("it is not answered")
		}
		if room = true; len(l.up) != 1 {
			t.Errorf("told up %d times", len(l.up))
		}
		if r.Resume(late); !slices.Equal(l.down, []events.Cause{events.CauseNone}) {
			t.Errorf("down %v", l.down)
		}
	})
}
