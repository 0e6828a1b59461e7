package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// namedReleased are the receivers that heartbeats among packets name as released.
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

// A subscriber that is released as slow and then says nothing any more is forgotten, and named
// in heartbeats all the same. When it is back and asks for what is gone, it is named ahead of
// the notice, once; it is released still, until it has caught up. docs/protocol §8.12.
func TestReleasedAndSilentIsNamed(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) {
		c.Slow, c.StallLimit, c.Silence = SlowLimit{8, 500 * time.Millisecond}, time.Minute, time.Second
	})
	others := func() {
		b.s.Handle(b.now, b.says(0, wire.Status{Receiver: 2, Next: b.s.win.sent, Limit: b.s.win.sent + 500, Echo: uint64(b.now)}), nil)
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
				t.Errorf("%d is named", id)
			}
		}
	}
	if times < 2 {
		t.Errorf("named %d times in a second", times)
	}
	b.run(time.Second, others)
	if b.s.win.trail == 0 {
		t.Fatal("nothing is gone")
	}

	b.next()
	b.now = b.now.Add(slowHeartbeat)
	b.s.heartbeat.last = b.now // just now there was a heartbeat
	b.nak(1, [2]uint64{0, b.s.win.trail})
	all := b.next()
	gone := slices.IndexFunc(all, func(p sent) bool { return p.Type == wire.TypeGone })
	if gone < 1 || len(namedReleased(t, all[:gone])) != 1 {
		t.Errorf("what is gone is announced in packet %d of %d, and it is named by %d before", gone, len(all), len(namedReleased(t, all[:max(gone, 0)])))
	}
	b.now = b.now.Add(slowHeartbeat / 2)
	b.nak(1, [2]uint64{0, b.s.win.trail})
	if b.s.stall.next != nil {
		t.Error("it is named for every NAK")
	}

	comes := func(next uint64) (released bool) {
		t.Helper()
		b.now = b.now.Add(time.Millisecond)
		b.s.Handle(b.now, b.says(0, wire.Status{Receiver: 1, Next: next, Limit: next + 500, Echo: uint64(b.now)}), nil)
		all := b.s.Members(b.now, 0)
		i := slices.IndexFunc(all, func(m stats.Subscriber) bool { return m.ID == 1 })
		if i < 0 {
			t.Fatal("it is no member")
		}
		return all[i].Released
	}
	if !comes(12) {
		t.Error("it is waited for, though it lacks what is gone")
	}
	if comes(b.s.win.sent) {
		t.Error("it has caught up, and is not waited for")
	}
	if n := len(b.s.members.toBeNamed()); n != 2 {
		t.Errorf("%d may be named, of two members", n)
	}
}

// One that does not come back is named for a minute.
func TestFormerlyReleasedIsForgotten(t *testing.T) {
	var x formerlyReleased
	start := upTime(time.Hour)
	away := membership{state: memberReleased, slow: true}
	x.remember(&Member{ID: 1, asked: solicited{since: start}})
	if x.find(1) != nil {
		t.Error("one that was not released is remembered")
	}
	for id := range uint64(formerKept + 1) {
		x.remember(&Member{ID: id, membership: away, asked: solicited{since: start.add(time.Duration(id) * time.Second)}})
	}
	if x.find(0) != nil || x.find(1) == nil || len(x.list) != formerKept {
		t.Errorf("%d are remembered", len(x.list))
	}
	x.forget(start.add(formerNamed + 9*time.Second))
	if x.find(9) != nil || x.find(10) == nil {
		t.Error("9 is named for longer than a minute, or 10 for less")
	}
	m := &Member{ID: 10}
	if x.comesBack(m); !m.away() || !m.membership.slow || x.find(10) != nil {
		t.Errorf("back as %+v", m.membership)
	}
	m = &Member{ID: 10}
	if x.comesBack(m); m.away() {
		t.Error("it is back twice")
	}
}
