package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// ended is a receiver that has packets 0 and 1 of a stream, and no open question about totals.
func ended(t *testing.T) (*Receiver, *log, func(sentAt, lead uint64, flags wire.Flags)) {
	l := &log{}
	r := newReceiver(t, l, nil)
	r.Handle(1, 5, data(3, 0, 0))
	r.Handle(1, 5, data(3, 1, 0))
	return r, l, func(sentAt, lead uint64, flags wire.Flags) {
		r.Handle(Instant(sentAt), 5, heartbeatOf(3, flags, wire.Heartbeat{Lead: lead, SentAt: sentAt}))
		if flags&wire.FlagEnd != 0 {
			r.Handle(Instant(sentAt), 5, announced(2, 2))
		}
	}
}

// The end of a stream counts after a second heartbeat with a later time; one below what is known is refused.
// docs/protocol §11.5, §11.6.
func TestEndNeedsASecondHeartbeat(t *testing.T) {
	_, l, beat := ended(t)
	beat(2, 2, wire.FlagEnd)
	beat(2, 2, wire.FlagEnd)
	if len(l.down) > 0 {
		t.Errorf("ended by one heartbeat and its copy: %v", l.down)
	}
	beat(3, 2, wire.FlagEnd)
	if !slices.Equal(l.down, []events.Cause{events.CauseNone}) || len(l.gaps) > 0 {
		t.Errorf("not ended by two: down %v, gaps %v", l.down, l.gaps)
	}
}

// docs/protocol §11.5.
func TestEndBelowWhatIsKnown(t *testing.T) {
	r, l, beat := ended(t)
	beat(2, 1, wire.FlagEnd)
	beat(3, 1, wire.FlagEnd)
	r.Handle(4, 5, data(3, 2, 0))
	if s := r.Stats(); len(l.down) > 0 || len(l.packets) != 3 || s.Implausible != 2 {
		t.Errorf("an end below what is known: down %v, %d packets, %d implausible", l.down, len(l.packets), s.Implausible)
	}
}

// One heartbeat of the end, and silence, are the end. docs/protocol §11.5.
func TestEndBySilence(t *testing.T) {
	r, l, beat := ended(t)
	beat(2, 2, wire.FlagEnd)
	for now := Instant(2); now < Instant(5*time.Second); now = now.Add(100 * time.Millisecond) {
		r.Tick(now)
	}
	if !slices.Equal(l.down, []events.Cause{events.CauseNone}) || r.Stats().StreamsLost > 0 {
		t.Errorf("down %v, %d lost", l.down, r.Stats().StreamsLost)
	}
}

// What a publisher sends on after an end that was forged is delivered, without a gap: before the end counts, after it, and
// also by a heartbeat alone; but not once the stream was removed. docs/protocol §11.6.
func TestStreamGoesOnAfterForgedEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		ends  int
		goes  func(r *Receiver, beat func(sentAt, lead uint64, flags wire.Flags))
		down  int // how often it has ended
		again int // packets in all
	}{
		{"one, then data", 1, func(r *Receiver, _ func(uint64, uint64, wire.Flags)) { r.Handle(10, 5, data(3, 2, 0)) }, 0, 3},
		{"two, then data", 2, func(r *Receiver, _ func(uint64, uint64, wire.Flags)) { r.Handle(10, 5, data(3, 2, 0)) }, 1, 3},
		{"two, then data behind a missing packet", 2, func(r *Receiver, _ func(uint64, uint64, wire.Flags)) {
			r.Handle(10, 5, data(3, 3, 0))
			r.Handle(10, 5, data(3, 2, wire.FlagRepair))
		}, 1, 4},
		{"two, then a heartbeat, then a lost packet", 2, func(r *Receiver, beat func(uint64, uint64, wire.Flags)) {
			beat(10, 2, 0)
			beat(11, 3, 0)
			r.Handle(12, 5, data(3, 2, wire.FlagRepair))
		}, 1, 3},
		{"one, then a heartbeat, then one again", 1, func(r *Receiver, beat func(uint64, uint64, wire.Flags)) {
			beat(10, 2, 0)
			beat(11, 2, wire.FlagEnd)
		}, 0, 2},
		{"two, then what is old", 2, func(r *Receiver, beat func(uint64, uint64, wire.Flags)) {
			beat(1, 2, 0)
			r.Handle(10, 5, data(3, 1, 0))
			r.Handle(10, 5, data(3, 2, wire.FlagRepair))
			if n := r.Stats().Streams; n != 1 {
				t.Errorf("%d streams", n)
			}
		}, 1, 2},
		{"two, and it was removed", 2, func(r *Receiver, beat func(uint64, uint64, wire.Flags)) {
			r.Tick(Instant(10 * time.Second))
			beat(uint64(11*time.Second), 2, 0)
			r.Handle(Instant(11*time.Second), 5, data(3, 2, 0))
			if n := r.Stats().Streams; n != 1 {
				t.Errorf("%d streams", n)
			}
		}, 1, 2},
	} {
		r, l, beat := ended(t)
		for i := range c.ends {
			beat(uint64(2+i), 2, wire.FlagEnd)
		}
		c.goes(r, beat)
		if len(l.down) != c.down || len(l.packets) != c.again || len(l.gaps) > 0 {
			t.Errorf("%s: down %v, %d packets, gaps %v", c.name, l.down, len(l.packets), l.gaps)
		}
	}
}

// A publisher whose heartbeats come and are never new is lost, and it is said that their times do not grow. docs/protocol §5.9.
func TestOldHeartbeatsAreNamed(t *testing.T) {
	for _, c := range []struct {
		beats  int
		faults []events.FaultError
	}{{100, []events.FaultError{{Publisher: 7, Epoch: 3, Fault: events.FaultClock, Count: 1}}}, {2, nil}} {
		r, l, beat := ended(t)
		beat(1000, 2, 0)
		for i := range 100 {
			now := Instant(i) * Instant(50*time.Millisecond)
			if i < c.beats {
				r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: 1000}))
			}
			r.Tick(now)
		}
		if !slices.Equal(l.down, []events.Cause{events.CausePublisherLost}) || !slices.Equal(l.faults, c.faults) {
			t.Errorf("%d old heartbeats: down %v, faults %v", c.beats, l.down, l.faults)
		}
	}
}

// Two forged heartbeats from the future make all true ones old. Data goes on, so that the publisher is not lost: it is
// reported all the same.
func TestHeartbeatsFromTheFutureAreReported(t *testing.T) {
	for _, forged := range []bool{false, true} {
		r, l, beat := ended(t)
		beat(1000, 2, 0)
		for i := range uint64(100) {
			now := Instant(i+1) * Instant(50*time.Millisecond)
			r.Handle(now, 5, data(3, i+2, 0))
			r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: i + 3, SentAt: uint64(now)}))
			for j := range uint64(2) {
				if forged && i == 0 {
					r.Handle(now, 6, heartbeatOf(3, 0, wire.Heartbeat{Lead: i + 3, SentAt: 1<<63 + j}))
				}
			}
			r.Tick(now)
		}
		if clock := slices.ContainsFunc(l.faults, func(f events.FaultError) bool { return f.Fault == events.FaultClock && f.Count == 1 }); clock != forged || len(l.down) > 0 {
			t.Errorf("forged %v: faults %v, down %v", forged, l.faults, l.down)
		}
	}
}
