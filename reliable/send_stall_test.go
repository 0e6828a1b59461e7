package reliable

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Each step has the member that blocks the publisher, since when, and the released members. docs/protocol §8.6, §8.7.
func TestStall(t *testing.T) {
	const window = 100
	type member struct {
		next, limit uint64
		released    bool
	}
	type step struct {
		at       time.Duration
		held     bool
		seq      uint64 // of the packet that cannot be sent
		members  []member
		holder   int // index, -1: none
		since    time.Duration
		released []int
	}
	none := -1
	for _, c := range []struct {
		name  string
		limit time.Duration
		flow  FlowControl
		steps []step
	}{
		{"none", time.Second, MinFlow{}, []step{
			{0, false, 50, []member{{50, 60, false}}, none, 0, nil},
		}},
		{"at its limit, without a packet to send", time.Second, MinFlow{}, []step{
			{0, false, 50, []member{{50, 50, false}}, none, 0, nil},
		}},
		{"without room", time.Second, MinFlow{}, []step{
			{10, true, 50, []member{{50, 80, false}, {50, 50, false}}, 1, 10, nil},
			{20, true, 50, []member{{50, 80, false}, {50, 50, false}}, 1, 10, nil},
		}},
		{"lacks the oldest packet of the window", time.Second, MinFlow{}, []step{
			{10, true, 150, []member{{51, 400, false}, {50, 300, false}}, 1, 10, nil},
		}},
		{"lets a packet through", time.Second, MinFlow{}, []step{
			{0, true, 50, []member{{50, 50, false}}, 0, 0, nil},
			{900 * time.Millisecond, true, 50, []member{{50, 51, false}}, none, 0, nil},
			{901 * time.Millisecond, true, 51, []member{{51, 51, false}}, 0, 901 * time.Millisecond, nil},
			{1900 * time.Millisecond, true, 51, []member{{51, 51, false}}, 0, 901 * time.Millisecond, nil},
			{1901 * time.Millisecond, true, 51, []member{{51, 51, false}}, none, 0, []int{0}},
		}},
		{"two, the longer one first", time.Second, MinFlow{}, []step{
			{0, true, 50, []member{{50, 60, false}, {50, 50, false}}, 1, 0, nil},
			{300 * time.Millisecond, true, 60, []member{{50, 60, false}, {60, 80, false}}, 0, 300 * time.Millisecond, nil},
			{500 * time.Millisecond, true, 60, []member{{50, 60, false}, {60, 60, false}}, 0, 300 * time.Millisecond, nil},
			{1300 * time.Millisecond, true, 60, []member{{50, 60, false}, {60, 60, false}}, 1, 500 * time.Millisecond, []int{0}},
		}},
		{"both at once", time.Second, MinFlow{}, []step{
			{1, true, 50, []member{{50, 50, false}, {40, 50, false}}, 0, 1, nil},
			{1 + time.Second, true, 50, []member{{50, 50, false}, {40, 50, false}}, none, 0, []int{0, 1}},
		}},
		{"released before", time.Second, MinFlow{}, []step{
			{0, true, 50, []member{{50, 50, true}, {50, 50, false}}, 1, 0, nil},
		}},
		{"without a limit", 0, MinFlow{}, []step{
			{0, true, 50, []member{{50, 50, false}}, 0, 0, nil},
			{time.Hour, true, 50, []member{{50, 50, false}}, 0, 0, nil},
		}},
		{"blocked by the rate limit", time.Second, MinFlow{}, []step{
			{0, true, 50, []member{{50, 50, false}}, 0, 0, nil},
			{time.Second, false, 50, []member{{50, 50, false}}, none, 0, nil},
			{2 * time.Second, true, 50, []member{{50, 50, false}}, 0, 2 * time.Second, nil},
		}},
		{"without flow control", time.Second, NoFlow{}, []step{
			{0, true, 50, []member{{50, 50, false}}, none, 0, nil},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const start = upTime(time.Minute)
			x := stall{limit: c.limit, flow: c.flow}
			var list []*Member
			for i, s := range c.steps {
				for j, m := range s.members {
					if j == len(list) {
						list = append(list, &Member{ID: uint64(j)})
					}
					if list[j].Next, list[j].Limit = m.next, m.limit; i == 0 && m.released {
						list[j].state = memberReleased
					}
				}
				now := start.add(s.at)
				x.look(now, list, s.held, s.seq, window)
				gone := x.release(now, list)
				if len(gone) != len(s.released) {
					t.Fatalf("step %d: %d released, want %d", i, len(gone), len(s.released))
				}
				for j, m := range gone {
					if m != list[s.released[j]] || !m.away() || m.heldFor(now) < c.limit {
						t.Errorf("step %d: released member %d after %v", i, m.ID, m.heldFor(now))
					}
				}
				h := x.holder(list)
				switch {
				case (h != nil) != (s.holder >= 0):
					t.Fatalf("step %d: holder %+v, want %d", i, h, s.holder)
				case h != nil && (h.ID != uint64(s.holder) || h.since != start.add(s.since)):
					t.Errorf("step %d: blocked by %d since %v, want %d since %v", i, h.ID, h.since.sub(start), s.holder, s.since)
				}
			}
		})
	}
}

// A member that does not answer, or that packets do not reach, is not one that does not read.
func TestFaultOfAMember(t *testing.T) {
	for i, c := range []struct {
		limit  uint64
		unread uint32
		asked  solicited
		want   string
	}{{10, 4, solicited{}, ""}, {9, 0, solicited{times: 3, since: 1}, "it has not answered for 5s"}, {10, 3, solicited{}, "it answers, but packets do not reach it"}, {6, 0, solicited{}, ""}} {
		m := &Member{Next: 6, Limit: c.limit, unread: c.unread, asked: c.asked}
		if got := fmt.Sprint(m.fault(upTime(0).add(5*time.Second+1), 20)); !strings.HasPrefix(got, cmp.Or(c.want, "<nil>")) {
			t.Errorf("case %d: %s, want %s", i, got, c.want)
		}
	}
}

// Heartbeats name the blocking member, if any, and every second time one of the released members.
// docs/protocol §5.5, §8.7.
func TestStallIsEmitted(t *testing.T) {
	away := membership{state: memberReleased}
	a, b, c := &Member{ID: 1}, &Member{ID: 2, membership: away}, &Member{ID: 3, membership: away}
	list := []*Member{a, b, c}
	for _, holds := range []bool{false, true} {
		if holds {
			a.holds(5)
		}
		x := stall{flow: MinFlow{}}
		reported := make(map[*Member]int)
		for range 12 {
			reported[x.toName(list)]++
		}
		if want := map[bool][3]int{true: {6, 3, 3}, false: {0, 6, 6}}[holds]; [3]int{reported[a], reported[b], reported[c]} != want {
			t.Errorf("holds %v: reported %v", holds, reported)
		}
	}
	x := stall{flow: MinFlow{}}
	for range 4 {
		if m := x.toName(list[:1]); m != a {
			t.Errorf("reported %+v", m)
		}
	}
}

// A subscriber that sends statuses and lets nothing through is named in heartbeats, released after
// the limit, and counts again when it has caught up. docs/protocol §8.7.
func TestHolderIsReleased(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.StallLimit = 3 * time.Second })
	say := func(id, next, limit uint64, unread uint32, name string) {
		st := wire.Status{Receiver: id, Next: next, Limit: limit, Echo: uint64(b.now), Unread: unread, Name: []byte(name)}
		b.s.Handle(b.now, wire.AppendStatus(nil, b.header(), &st, nil), func() string { return "10.0.0.7:4711" })
	}
	say(1, 0, 1000, 0, "reads")
	say(2, 0, 4, 0, "stands\x07still")
	b.next()
	b.assign(10)
	start, named := b.now, time.Duration(0)
	for {
		if b.now.Sub(start) > time.Minute {
			t.Fatal("never released")
		}
		for _, p := range of(wire.TypeHeartbeat, b.next()) {
			switch hb, _ := wire.ParseHeartbeat(p.b); {
			case hb.Holder == 2 && !hb.Released:
				named = hb.Held
			case hb.Holder != 0 && !hb.Released:
				t.Errorf("heartbeat names %d", hb.Holder)
			}
		}
		if b.s.Stats().ReceiversReleased > 0 {
			break
		}
		h, ok := b.s.Holder(b.now)
		if b.now.Sub(start) > 100*time.Millisecond && (!ok || h.Subscriber != 2 || h.Name != `"stands\astill"` || h.Address != "10.0.0.7:4711" || h.Behind != 4 || h.For > b.now.Sub(start)) {
			t.Fatalf("blocked by %+v, %v", h, ok)
		}
		b.now = max(b.now+1, b.s.Deadline())
		say(1, 4, 1000, 0, "")
		say(2, 4, 4, 4, "")
	}
	if d := b.now.Sub(start); d < 3*time.Second || d > 3*time.Second+2*slowHeartbeat {
		t.Errorf("released after %v", d)
	}
	if named < 2*time.Second {
		t.Errorf("heartbeats have named it for %v", named)
	}
	if g := taken(b.s, events.SubscriberReleased); len(g) != 1 || g[0].Err != nil || g[0].Subscriber != 2 || g[0].Name != `"stands\astill"` || g[0].For < 3*time.Second {
		t.Errorf("released: %+v", g)
	}
	if _, ok := b.s.Holder(b.now); ok || b.s.Stats().ReceiversReleased != 1 || b.s.flow.free {
		t.Errorf("still blocked: %v; %d released; free %v", ok, b.s.Stats().ReceiversReleased, b.s.flow.free)
	}
	for range 30 { // more than the window
		b.next()
		say(1, b.s.Lead(), 10000, 0, "")
		b.assign(1)
	}
	b.next()
	say(1, b.s.Lead(), 10000, 0, "")
	if b.s.win.trail <= 4 {
		t.Fatalf("the window still has packet %d", b.s.win.trail)
	}
	if !b.s.Drained() {
		t.Error("Drained waits for a released member")
	}
	reported := false
	for range 4 {
		b.now = b.s.Deadline()
		for _, p := range of(wire.TypeHeartbeat, b.next()) {
			hb, _ := wire.ParseHeartbeat(p.b)
			reported = reported || hb.Holder == 2 && hb.Released && hb.Held >= 3*time.Second
		}
	}
	if !reported {
		t.Error("heartbeats do not report that it was released")
	}
	lead := b.s.Lead()
	if m := (&Member{Next: b.s.win.trail - 1, Limit: lead + 20}); m.caughtUp(b.s.win.trail, lead) {
		t.Error("a subscriber that lacks gone packets counts")
	}
	for _, c := range []struct {
		next, limit uint64
		released    bool
	}{
		{4, 4, true},
		{lead - 1, lead, true}, // it has no room
		{lead - 1, lead + 20, false},
	} {
		b.now++
		say(2, c.next, c.limit, 0, "")
		for _, m := range b.s.Members(b.now) {
			if m.ID == 2 && m.Released != c.released {
				t.Errorf("next %d, limit %d: %+v", c.next, c.limit, m)
			}
		}
	}
	if b.s.flow.limit != lead+20 {
		t.Errorf("flow control is at %d, want its limit %d", b.s.flow.limit, lead+20)
	}
}

// The blocking member is known as soon as a packet is refused because of it, even if it has let
// some packets through since the last evaluation. docs/protocol §8.6.
func TestHolderIsKnownAtOnce(t *testing.T) {
	b := newBench(t, nil)
	say := func(next, limit uint64) {
		st := wire.Status{Receiver: 2, Next: next, Limit: limit, Echo: uint64(b.now)}
		b.s.Handle(b.now, wire.AppendStatus(nil, b.header(), &st, nil), nil)
	}
	say(0, 4)
	for limit := uint64(4); limit < 16; limit += 4 {
		b.assign(int(limit - b.s.Lead()))
		b.next()
		if h, ok := b.s.Holder(b.now); ok {
			t.Fatalf("limit %d: blocked by %+v, which has room for all", limit, h)
		}
		b.assign(1)
		if h, ok := b.s.Holder(b.now); !ok || h.Subscriber != 2 {
			t.Fatalf("limit %d: blocked by %+v, %v", limit, h, ok)
		}
		b.now = b.now.Add(time.Millisecond)
		say(limit, limit+4)
	}
}

// A receiver is informed that it blocks its publisher, and that it was released; its losses from
// that are gaps with that cause, until it has caught up. docs/protocol §8.6, §9.1.
func TestHoldingIsReported(t *testing.T) {
	l := new(log)
	r := newReceiver(t, l, nil)
	at, sentAt := Instant(1), uint64(0)
	hear := func(hb wire.Heartbeat) (held time.Duration, released, news bool) {
		at, sentAt = at.Add(10*time.Millisecond), sentAt+uint64(10*time.Millisecond)
		hb.SentAt = sentAt
		r.Handle(at, 1, heartbeatOf(1, 0, hb))
		replies(r, at)
		all := r.TakeHolding()
		held, released = r.Streams()[0].Holding()
		return held, released, len(all) == 1 && all[0] == r.Streams()[0]
	}
	r.Handle(at, 1, data(1, 0, 0))
	for i, c := range []struct {
		holder   uint64
		held     time.Duration
		released bool
		lead     uint64
		want     time.Duration
		gone     bool
		news     bool
	}{
		{0, 0, false, 1, 0, false, false},
		{41, time.Second, false, 1, 0, false, false},
		{42, time.Second, false, 1, time.Second, false, true},
		{41, time.Hour, true, 1, time.Second, false, false}, // another one was released
		{42, 2 * time.Second, false, 1, 2 * time.Second, false, true},
		{41, time.Second, false, 1, 0, false, true},
		{42, 30 * time.Second, true, 20, 30 * time.Second, true, true},
		{0, 0, false, 20, 30 * time.Second, true, false}, // it has not caught up yet
	} {
		held, released, news := hear(wire.Heartbeat{Lead: c.lead, Holder: c.holder, Held: c.held, Released: c.released})
		if held != c.want || released != c.gone || news != c.news {
			t.Errorf("heartbeat %d: held %v, released %v, news %v", i, held, released, news)
		}
	}
	hear(wire.Heartbeat{Lead: 30, Trail: 10})
	for seq := uint64(10); seq < 30; seq++ {
		r.Handle(at, 1, data(1, seq, wire.FlagRepair))
	}
	if len(l.gaps) != 1 || l.gaps[0] != [3]uint64{1, 9, uint64(events.CauseReleased)} || r.Stats().LostReleased != 9 {
		t.Errorf("gaps %v, %d counted", l.gaps, r.Stats().LostReleased)
	}
	if _, released, _ := hear(wire.Heartbeat{Lead: 30, Trail: 10}); released {
		t.Error("still released after it has caught up")
	}
	hear(wire.Heartbeat{Lead: 40, Trail: 32})
	if len(l.gaps) != 2 || l.gaps[1] != [3]uint64{30, 2, uint64(events.CauseGone)} {
		t.Errorf("gaps %v", l.gaps)
	}
}

// A member that fetches its initial packets is shown as joining until its first status without the
// flag. docs/protocol §8.10.
func TestJoiningMemberIsShown(t *testing.T) {
	b := newBench(t, nil)
	b.publish(3)
	for i, c := range []struct {
		flags wire.Flags
		want  bool
	}{{wire.FlagJoining, true}, {wire.FlagJoining, true}, {0, false}} {
		b.status(1, uint64(i), 100, c.flags)
		if m := b.s.Members(b.now); len(m) != 1 || m[0].Joining != c.want {
			t.Errorf("status %d: %+v", i, m)
		}
	}
}

// docs/protocol §8.9.
func TestLagging(t *testing.T) {
	type step struct {
		at     time.Duration
		behind uint64
		held   time.Duration
		tooFar bool
	}
	for _, c := range []struct {
		name  string
		limit SlowLimit
		steps []step
	}{
		{"no limit", SlowLimit{}, []step{{0, 1 << 40, 0, false}, {time.Hour, 1 << 40, 0, false}}},
		{"at the limit", SlowLimit{100, time.Second}, []step{{0, 100, 0, false}, {time.Hour, 100, 0, false}}},
		{"beyond it", SlowLimit{100, time.Second}, []step{{0, 101, 0, false}, {999 * time.Millisecond, 5000, 0, false}, {time.Second, 101, 0, true}}},
		{"less behind in between", SlowLimit{100, time.Second}, []step{{0, 101, 0, false}, {500 * time.Millisecond, 100, 0, false}, {time.Second, 101, 0, false}, {1999 * time.Millisecond, 101, 0, false}, {2 * time.Second, 101, 0, true}}},
		{"at once", SlowLimit{100, 0}, []step{{0, 101, 0, true}}},
		{"blocks, no limit", SlowLimit{}, []step{{0, 42, time.Hour, false}}},
		{"blocks at less than the limit", SlowLimit{100, time.Second}, []step{{0, 42, 0, false}, {time.Second, 42, 999 * time.Millisecond, false}, {time.Second, 42, time.Second, true}}},
		{"blocks, and lets a packet through", SlowLimit{100, time.Second}, []step{{0, 42, 900 * time.Millisecond, false}, {time.Second, 42, 100 * time.Millisecond, false}}},
	} {
		var x lagging
		for i, s := range c.steps {
			if _, got := x.note(upTime(time.Minute).add(s.at), s.behind, s.held, c.limit); got != s.tooFar {
				t.Errorf("%s: step %d: %v", c.name, i, got)
			}
		}
	}
}

// A subscriber that is slow but never stops is released when it has been too far behind for too
// long, and counts again only when it is half as far behind. docs/protocol §8.9.
func TestSlowSubscriberIsReleased(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Slow, c.StallLimit = SlowLimit{8, 5 * time.Second}, time.Minute })
	got := uint64(0)
	b.status(1, 0, 12, 0)
	for range 12 {
		b.publish(1)
	}
	for i := range 4 { // a packet per second
		b.now = b.now.Add(time.Second)
		got++
		b.status(1, got, got+12, 0)
		b.publish(1)
		b.s.releaseHolders(b.now)
		if b.s.Stats().ReceiversReleased != 0 {
			t.Fatalf("released after %d s", i+1)
		}
	}
	b.now = b.now.Add(2 * time.Second)
	b.s.releaseHolders(b.now)
	g := taken(b.s, events.SlowSubscriber)
	if len(g) != 1 || g[0].Subscriber != 1 || g[0].Behind != 12 || g[0].For < 5*time.Second || b.s.Room() != noLimit-b.s.win.next {
		t.Fatalf("released: %+v; room for %d", g, b.s.Room())
	}
	for range 2 {
		b.publish(1)
	}
	for _, c := range []struct {
		next     uint64
		released bool
	}{{5, true}, {13, true}, {14, false}} { // of 18
		b.status(1, c.next, c.next+12, 0)
		if m := b.s.Members(b.now); len(m) != 1 || m[0].Released != c.released {
			t.Errorf("at %d: %+v", c.next, m)
		}
	}
}

// One that is silent blocks the publisher at fewer packets than the limit, because windows are
// small: it is released all the same. One that lets a packet through is not. docs/protocol §8.9.
func TestHolderIsReleasedAsSlow(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Slow, c.StallLimit = SlowLimit{100, 5 * time.Second}, time.Minute })
	b.status(1, 0, 12, 0)
	held := func() {
		t.Helper()
		if _, r := b.assign(20); r != events.ReasonFlow {
			t.Fatalf("the publisher is not blocked: %v", r)
		}
		b.next()
		b.s.releaseHolders(b.now)
	}
	held()
	for got := uint64(1); got < 5; got++ {
		b.now = b.now.Add(4 * time.Second)
		b.s.releaseHolders(b.now)
		b.status(1, got, got+12, 0)
		held()
	}
	b.now = b.now.Add(4 * time.Second)
	b.s.releaseHolders(b.now)
	if g := taken(b.s, events.SlowSubscriber); len(g) > 0 {
		t.Fatalf("released although it lets a packet through every 4 s: %+v", g)
	}
	b.now = b.now.Add(time.Second)
	b.s.releaseHolders(b.now)
	g := taken(b.s, events.SlowSubscriber)
	if len(g) != 1 || g[0].Behind > 100 || g[0].For < 5*time.Second || g[0].For > 6*time.Second {
		t.Fatalf("released: %+v", g)
	}
}

// namedReleased returns the receivers named as released in heartbeats among the packets.
func namedReleased(t *testing.T, packets []sent) (ids []uint64) {
	t.Helper()
	for _, p := range of(wire.TypeHeartbeat, packets) {
		hb, err := wire.ParseHeartbeat(p.b)
		if err != nil {
			t.Fatal(err)
		}
		if hb.Released {
			ids = append(ids, hb.Holder)
		}
	}
	return ids
}

// A subscriber that was released as slow and is silent afterwards is removed, but still named in
// heartbeats. When it returns and requests packets that are gone, it is named before the notice,
// once; it remains released until it has caught up. docs/protocol §8.12.
func TestReleasedAndSilentIsNamed(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) {
		c.Slow, c.StallLimit, c.Silence = SlowLimit{8, 500 * time.Millisecond}, time.Minute, time.Second
	})
	others := func() {
		b.s.Handle(b.now, b.statusOf(0, wire.Status{Receiver: 2, Next: b.s.win.sent, Limit: b.s.win.sent + 500, Echo: uint64(b.now)}), nil)
	}
	b.status(1, 0, 12, 0)
	b.run(3*time.Second, others)
	if st := b.s.Stats(); st.ReceiversReleased != 1 || st.ReceiversSilent != 1 || b.s.members.byID[1] != nil {
		t.Fatalf("%d released, %d silent", st.ReceiversReleased, st.ReceiversSilent)
	}
	times := 0
	for i := range 1000 {
		if i%100 == 0 {
			others()
		}
		b.now = b.now.Add(time.Millisecond)
		for _, id := range namedReleased(t, b.next()) {
			if times++; id != 1 {
				t.Errorf("receiver %d is named", id)
			}
		}
	}
	if times < 2 {
		t.Errorf("named %d times a second", times)
	}
	b.run(time.Second, others)
	if b.s.win.trail == 0 {
		t.Fatal("no packet is gone")
	}

	b.next()
	b.now = b.now.Add(slowHeartbeat)
	b.s.heartbeat.last = b.now // a heartbeat was just sent
	b.nak(1, [2]uint64{0, b.s.win.trail})
	all := b.next()
	gone := slices.IndexFunc(all, func(p sent) bool { return p.Type == wire.TypeGone })
	if gone < 1 || len(namedReleased(t, all[:gone])) != 1 {
		t.Errorf("the notice is packet %d of %d, and the receiver is named in %d before", gone, len(all), len(namedReleased(t, all[:max(gone, 0)])))
	}
	b.now = b.now.Add(slowHeartbeat / 2)
	b.nak(1, [2]uint64{0, b.s.win.trail})
	if b.s.stall.next != nil {
		t.Error("the receiver is named for every NAK")
	}

	comes := func(next uint64) (released bool) {
		t.Helper()
		b.now = b.now.Add(time.Millisecond)
		b.s.Handle(b.now, b.statusOf(0, wire.Status{Receiver: 1, Next: next, Limit: next + 500, Echo: uint64(b.now)}), nil)
		all := b.s.Members(b.now)
		i := slices.IndexFunc(all, func(m stats.Subscriber) bool { return m.ID == 1 })
		if i < 0 {
			t.Fatal("the receiver is not a member")
		}
		return all[i].Released
	}
	if !comes(12) {
		t.Error("flow control waits for the receiver, which lacks gone packets")
	}
	if comes(b.s.win.sent) {
		t.Error("flow control does not wait for the receiver after it caught up")
	}
	if n := len(b.s.members.toBeNamed()); n != 2 {
		t.Errorf("%d may be named, with two members", n)
	}
}

// A released member that does not return is named for a minute.
func TestFormerlyReleasedExpires(t *testing.T) {
	var x formerlyReleased
	start := upTime(time.Hour)
	away := membership{state: memberReleased, slow: true}
	x.remember(&Member{ID: 1, asked: solicited{since: start}})
	if x.find(1) != nil {
		t.Error("a member that was not released is stored")
	}
	for id := range uint64(formerKept + 1) {
		x.remember(&Member{ID: id, membership: away, asked: solicited{since: start.add(time.Duration(id) * time.Second)}})
	}
	if x.find(0) != nil || x.find(1) == nil || len(x.list) != formerKept {
		t.Errorf("%d are stored", len(x.list))
	}
	x.forget(start.add(formerNamed + 9*time.Second))
	if x.find(9) != nil || x.find(10) == nil {
		t.Error("9 is named for longer than a minute, or 10 for less")
	}
	m := &Member{ID: 10}
	if x.comesBack(m); !m.away() || !m.membership.slow || x.find(10) != nil {
		t.Errorf("returned as %+v", m.membership)
	}
	m = &Member{ID: 10}
	if x.comesBack(m); m.away() {
		t.Error("it returns twice")
	}
}
