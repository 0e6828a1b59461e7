package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

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
		all := b.s.Members(b.now, 0)
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
