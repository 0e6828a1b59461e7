package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// A receiver that is behind must not blame publishers: packets of that time are unread. So a publisher gets
// another silence limit, and a missing packet another deadline, but not without end. docs/protocol §11.3.
func TestStallExtension(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant(time.Second + d) }
	begin := func() (*Receiver, *log) {
		l := new(log)
		r := newReceiver(t, l, nil)
		r.Handle(at(0), 5, data(3, 10, 0))
		r.Handle(at(0), 5, data(3, 12, 0)) // 11 is missing
		r.Tick(at(0))
		return r, l
	}
	lost := func(l *log) bool { return len(l.down) > 0 || len(l.gaps) > 0 }

	r, l := begin()
	if r.Tick(at(10 * time.Second)); !lost(l) {
		t.Fatal("not lost after ten seconds of silence")
	}
	r, l = begin()
	const still = 6 * time.Second
	r.NoteStall(at(still))
	if r.Tick(at(still)); lost(l) {
		t.Fatalf("after a stall of %v: lost %v, gaps %v", still, l.down, l.gaps)
	}
	replies(r, at(still))
	if d := r.Deadline(); d <= at(still) {
		t.Errorf("the deadline %v is in the past: the caller would not sleep", d)
	}
	// Unread packets are read now.
	r.Handle(at(still), 5, data(3, 11, 0))
	if r.Tick(at(still)); lost(l) || r.Stats().Packets != 3 {
		t.Errorf("%v, gaps %v, %+v", l.down, l.gaps, r.Stats())
	}
	// Then silence counts again.
	if r.Tick(at(20 * time.Second)); !lost(l) {
		t.Error("not lost after ten more seconds of silence")
	}
	// The same after a long stall.
	r, l = begin()
	r.NoteStall(at(20 * time.Second))
	if r.Tick(at(20 * time.Second)); lost(l) {
		t.Errorf("after a stall of 20 s: lost %v, gaps %v", l.down, l.gaps)
	}
	if r.Tick(at(23 * time.Second)); !lost(l) {
		t.Error("not lost after three more seconds of silence")
	}
	// A receiver that stalls all the time reports a loss eventually.
	r, l = begin()
	for d := time.Duration(0); d < time.Minute && !lost(l); d += 200 * time.Millisecond {
		r.NoteStall(at(d))
		r.Tick(at(d))
	}
	if !lost(l) {
		t.Error("not lost after a minute of silence with repeated stalls")
	}
}

// A receiver that is behind sends its publishers statuses, since they may have solicited them:
// about as often as they solicit. docs/protocol §11.3.
func TestStatusesWhileBehind(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant(time.Second + d) }
	r := newReceiver(t, new(log), nil)
	want(r, at(0), true)
	r.Handle(at(0), 5, data(3, 10, 0))
	r.Tick(at(0))
	run := func(from, to time.Duration, behind bool) uint64 {
		before := r.Stats().Statuses
		for d := from; d < to; d += time.Millisecond {
			if d%(500*time.Millisecond) == 0 {
				r.Handle(at(d), 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 11, SentAt: uint64(at(d)), Interval: time.Second, StatusInterval: time.Second}))
			}
			if behind {
				r.NoteStall(at(d))
			}
			replies(r, at(d))
		}
		return r.Stats().Statuses - before
	}
	run(0, 10*time.Second, false) // early statuses of the new stream
	if n := run(10*time.Second, 12*time.Second, false); n > 3 {
		t.Errorf("%d statuses in 2 s of a receiver that has read everything", n)
	}
	if n := run(12*time.Second, 14*time.Second, true); n < 15 || n > 21 {
		t.Errorf("%d statuses in 2 s of a receiver that is behind", n)
	}
}
