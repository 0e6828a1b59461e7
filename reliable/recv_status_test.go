package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// However often topics change, each publisher gets a status for them at most every 5 ms, and the
// last one has the final topics. docs/protocol §7.1.
func TestStatusesOfChanges(t *testing.T) {
	const publishers, changes = 3, 1000
	layer := &listing{}
	l := &log{contents: func(*Stream) Contents { return layer }}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.MaxStreams = publishers })
	now := Instant(time.Hour)
	for pub := range publishers {
		r.Handle(now, 1, wiretest.Heartbeat(events.ID(pub+1), 1, 0, wire.Heartbeat{SentAt: uint64(now), Interval: time.Second, StatusInterval: time.Second}))
	}
	for range 100 { // the first statuses, and solicited ones
		now += 10 * ms
		replies(r, now)
	}
	statuses := 0
	var last wire.Status
	take := func() {
		for _, p := range of(wire.TypeStatus, replies(r, now)) {
			statuses++
			var err error
			if last, err = wire.ParseStatus(p.b); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range changes {
		now += ms / 10
		layer.topics = []uint64{1, uint64(i)}
		r.WantedChanged(now)
		take()
	}
	if most := publishers * (changes/10/5 + 1); statuses > most || statuses < most/2 {
		t.Errorf("%d statuses to %d publishers for %d changes in 100 ms, want at most %d", statuses, publishers, changes, most)
	}
	now += 5 * ms
	take()
	if last.Topics() != 2 || !slices.Contains([]uint64{last.Topic(0), last.Topic(1)}, changes-1) {
		t.Errorf("the last status names %d topics", last.Topics())
	}
}

// A publisher that is down gets no status for a change. docs/protocol §11.4.
func TestNoStatusOfChangeWhileDown(t *testing.T) {
	r := newReceiver(t, &log{}, nil)
	now := Instant(time.Hour)
	r.Handle(now, 1, wiretest.Heartbeat(7, 1, 0, wire.Heartbeat{SentAt: uint64(now), Interval: time.Second, StatusInterval: time.Second}))
	for !r.Streams()[0].Down() {
		now += 10 * ms
		r.Tick(now)
		replies(r, now)
	}
	r.WantedChanged(now)
	if n := len(of(wire.TypeStatus, replies(r, now+10*ms))); n != 0 {
		t.Errorf("%d statuses to a publisher that is down", n)
	}
}

// A single change is sent at once.
func TestStatusOfFirstChange(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(time.Hour)
	r.Handle(now, 1, wiretest.Heartbeat(7, 1, 0, wire.Heartbeat{SentAt: uint64(now), Interval: time.Second, StatusInterval: time.Second}))
	for range 30 {
		now += 10 * ms
		replies(r, now)
	}
	r.WantedChanged(now)
	if n := len(of(wire.TypeStatus, replies(r, now))); n != 1 {
		t.Errorf("%d statuses", n)
	}
}
