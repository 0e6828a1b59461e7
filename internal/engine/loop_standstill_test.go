package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A bus does not report itself as slow for the time in which its process was stopped. docs/protocol §8.6.
func TestHeldWhileStopped(t *testing.T) {
	holds := 0
	_, l := newLoop(t, Config{Events: func(e events.Event) {
		if e.Kind == events.HoldsPublishersUp {
			holds++
		}
	}})
	subscribeTo(t, l, TopicName{Name: "x"}, policyAuto, handlerFuncs{other: func(*Delivery) {}})
	err := l.do(func() {
		g := l.groups[0]
		for i, ago := range []time.Duration{0, 5 * time.Second} {
			l.memberships.of[membership{group: everyGroup}] = outage{until: l.now().Add(-ago)}
			b := wire.AppendHeartbeat(nil, wire.Header{GroupTag: wire.GroupTag(g.address), Publisher: 7, Epoch: 1}, &wire.Heartbeat{SentAt: uint64(i + 1), PacketSize: 1000,
				Interval: time.Second, StatusInterval: time.Second, Holder: l.cfg.Receiver.ID, Held: 3 * time.Second})
			wire.SetChecksum(b)
			g.r.Handle(l.now(), 5, b)
			if g.holding(); holds != i {
				t.Errorf("stopped until %v ago: %d reports, want %d", ago, holds, i)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A release is not blamed on a reader while more packets are missing than unread, or the process has just not run.
func TestReleaseIsNotBlamedOnTheReader(t *testing.T) {
	for stood, missing := range map[reliable.Instant]uint64{0: 0, 1: 0, 2: 3} {
		var blamed []string
		_, l := newLoop(t, Config{Events: func(e events.Event) {
			if e.Kind == events.ReleasedByPublisher {
				blamed = append(blamed, fmt.Sprint(e.Topics, e.Behind))
			}
		}})
		subscribeTo(t, l, TopicName{Name: "x"}, policyBlock, nil)
		err := l.do(func() {
			g := l.groups[0]
			if stood == 1 {
				l.memberships.of[membership{group: everyGroup}] = outage{until: l.now()}
			}
			h := wire.Header{GroupTag: wire.GroupTag(g.address), Publisher: 7, Epoch: 1, Flags: wire.FlagChecksum}
			data := append(make([]byte, wire.DataHeaderLen+wire.RunHeaderLen), 1, 0, 'm')
			wire.PutDataHeader(data, h, 1000)
			wire.PutRunHeader(data[wire.DataHeaderLen:], wire.RunMessages, 3, wire.TopicID("x"), 0)
			hb := wire.Heartbeat{SentAt: 1, PacketSize: 1000, Interval: time.Second, StatusInterval: time.Second}
			up := wire.AppendHeartbeat(nil, h, &hb)
			hb.SentAt, hb.Lead, hb.Holder, hb.Held, hb.Released = 2, 1+missing, l.cfg.Receiver.ID, 3*time.Second, true
			for _, b := range [][]byte{up, data, wire.AppendHeartbeat(nil, h, &hb)} {
				wire.SetChecksum(b)
				g.r.Handle(l.now(), 5, b)
			}
			g.tick(l.now())
		})
		if want := map[bool]string{false: "[[x] 1]", true: "[[] 1]"}[stood > 0]; err != nil || fmt.Sprint(blamed) != want {
			t.Errorf("stood still %v, %d packets missing: released for %v, want %s (%v)", stood == 1, missing, blamed, want, err)
		}
	}
}

// A loop that runs two seconds late stood still. A loop that sleeps until its deadline, or whose handlers are slow, did
// not.
func TestStandstill(t *testing.T) {
	at := func(d time.Duration) reliable.Instant { return reliable.Instant(time.Hour + d) }
	for _, c := range []struct {
		name                  string
		ended, deadline, next time.Duration
		want                  time.Duration
	}{
		{"at once", 0, 0, 0, 0},
		{"in time", 0, 5 * time.Second, 5 * time.Second, 0},
		{"woken early", 0, time.Minute, time.Second, 0},
		{"a little late", 0, time.Second, 2900 * time.Millisecond, 0},
		{"late", 0, time.Second, 4 * time.Second, 2900 * time.Millisecond},
		{"late after a deadline in the past", 0, -time.Second, 3 * time.Second, 2900 * time.Millisecond},
	} {
		var x standstill
		x.ran(at(c.ended), false)
		x.runs.Rests(at(c.deadline))
		if x.ran(at(c.next), false); x.stood != c.want {
			t.Errorf("%s: stood still for %v, want %v", c.name, x.stood, c.want)
		}
	}
	for _, handled := range []bool{false, true} {
		var x standstill
		x.ran(at(0), false)
		if x.ran(at(3*time.Second), handled); (x.stood > 0) == handled {
			t.Errorf("a turn of 3 s, with handlers %v: stood still for %v, want above 0: %v", handled, x.stood, !handled)
		}
	}
	var x standstill
	x.ran(at(0), false)
	x.runs.Rests(reliable.Never)
	if x.ran(at(time.Hour), false); x.stood != 0 {
		t.Errorf("a loop without a deadline stood still for %v, want 0", x.stood)
	}
}
