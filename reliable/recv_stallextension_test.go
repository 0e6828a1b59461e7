package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// A receiver that is behind blames no publisher for it: the packets of that time lie unread. So a publisher gets its
// silenceLimit once more, and a missing packet its deadline; but not for ever. docs/protocol §11.3.
func TestAwake(t *testing.T) {
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
		t.Fatal("ten seconds of silence are no loss")
	}
	r, l = begin()
	const still = 6 * time.Second
	r.NoteStall(at(still))
	if r.Tick(at(still)); lost(l) {
		t.Fatalf("a receiver that stood still for %v has lost %v, gaps %v", still, l.down, l.gaps)
	}
	replies(r, at(still))
	if d := r.Deadline(); d <= at(still) {
		t.Errorf("the deadline %v is past: the caller would not sleep", d)
	}
	// What was unread is read now.
	r.Handle(at(still), 5, data(3, 11, 0))
	if r.Tick(at(still)); lost(l) || r.Stats().Packets != 3 {
		t.Errorf("%v, gaps %v, %+v", l.down, l.gaps, r.Stats())
	}
	// And then silence counts again.
	if r.Tick(at(20 * time.Second)); !lost(l) {
		t.Error("ten more seconds of silence are no loss")
	}
	// Also for long.
	r, l = begin()
	r.NoteStall(at(20 * time.Second))
	if r.Tick(at(20 * time.Second)); lost(l) {
		t.Errorf("a receiver that stood still for 20 s has lost %v, gaps %v", l.down, l.gaps)
	}
	if r.Tick(at(23 * time.Second)); !lost(l) {
		t.Error("three more seconds of silence are no loss")
	}
	// A receiver that stands still all the time gives up in the end.
	r, l = begin()
	for d := time.Duration(0); d < time.Minute && !lost(l); d += 200 * time.Millisecond {
		r.NoteStall(at(d))
		r.Tick(at(d))
	}
	if !lost(l) {
		t.Error("a minute of silence is no loss to a receiver that stands still again and again")
	}
}

// A receiver that is behind sends its publishers a sign of life, since they may have asked for it: about as often as
// they ask, and no more. docs/protocol §11.3.
func TestAwakeIsASignOfLife(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant(time.Second + d) }
	r := newReceiver(t, new(log), nil)
	setTopics(r, at(0), []string{"a.b"})
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
	run(0, 10*time.Second, false) // those of a new stream are early
	if n := run(10*time.Second, 12*time.Second, false); n > 3 {
		t.Errorf("%d statuses in 2 s of a receiver that has read all", n)
	}
	if n := run(12*time.Second, 14*time.Second, true); n < 15 || n > 21 {
		t.Errorf("%d statuses in 2 s of one that is behind", n)
	}
}
