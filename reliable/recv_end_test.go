package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// ended returns a receiver that has received packets 0 and 1 of a stream.
func ended(t *testing.T) (*Receiver, *log, func(sentAt, lead uint64, flags wire.Flags)) {
	l := &log{}
	r := newReceiver(t, l, nil)
	r.Handle(1, 5, data(3, 0, 0))
	r.Handle(1, 5, data(3, 1, 0))
	return r, l, func(sentAt, lead uint64, flags wire.Flags) {
		r.Handle(Instant(sentAt), 5, heartbeatOf(3, flags, wire.Heartbeat{Lead: lead, SentAt: sentAt}))
	}
}

// The end of a stream requires a second, later heartbeat; an end below a known sequence is refused.
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
		t.Errorf("not ended by two heartbeats: down %v, gaps %v", l.down, l.gaps)
	}
}

// docs/protocol §11.5.
func TestEndBelowAKnownSequence(t *testing.T) {
	r, l, beat := ended(t)
	beat(2, 1, wire.FlagEnd)
	beat(3, 1, wire.FlagEnd)
	r.Handle(4, 5, data(3, 2, 0))
	if s := r.Stats(); len(l.down) > 0 || len(l.packets) != 3 || s.Implausible != 2 {
		t.Errorf("an end below a known sequence: down %v, %d packets, %d implausible", l.down, len(l.packets), s.Implausible)
	}
}

// A single END heartbeat, followed by silence, ends the stream. docs/protocol §11.5.
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

// Data after a forged end is delivered without a gap: before the end counts and after it, and also
// after a heartbeat alone; but not once the stream was removed. docs/protocol §11.6.
func TestStreamContinuesAfterForgedEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		ends  int
		goes  func(r *Receiver, beat func(sentAt, lead uint64, flags wire.Flags))
		down  int // number of ends
		again int // total of packets
	}{
		{"one END heartbeat, then data", 1, func(r *Receiver, _ func(uint64, uint64, wire.Flags)) { r.Handle(10, 5, data(3, 2, 0)) }, 0, 3},
		{"two END heartbeats, then data", 2, func(r *Receiver, _ func(uint64, uint64, wire.Flags)) { r.Handle(10, 5, data(3, 2, 0)) }, 1, 3},
		{"two, then data after a missing packet", 2, func(r *Receiver, _ func(uint64, uint64, wire.Flags)) {
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
		{"two, then old packets", 2, func(r *Receiver, beat func(uint64, uint64, wire.Flags)) {
			beat(1, 2, 0)
			r.Handle(10, 5, data(3, 1, 0))
			r.Handle(10, 5, data(3, 2, wire.FlagRepair))
			if n := r.Stats().Streams; n != 1 {
				t.Errorf("%d streams", n)
			}
		}, 1, 2},
		{"two, and the stream was removed", 2, func(r *Receiver, beat func(uint64, uint64, wire.Flags)) {
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

// A publisher whose heartbeats are never new is reported as lost, with the fault that their times do not increase.
// docs/protocol §5.9.
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

// Two forged heartbeats from the future make all genuine ones old. Data continues, so the publisher
// is not lost, but the fault is reported.
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

// A publisher that is silent after its end has ended, and is not lost: even
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
