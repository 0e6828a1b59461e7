package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Time in which the owner did not run counts for nothing, however often that is; what it is late by, or
// sleeps for, counts. docs/protocol §11.3.
func TestRunning(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant(time.Hour + d) }
	type step struct {
		now, rests time.Duration // it runs then, and says that it will again then
	}
	for _, c := range []struct {
		name  string
		steps []step
		up    time.Duration // at the last step, since the first
	}{
		{"it runs in time", []step{{0, time.Second}, {time.Second, 2 * time.Second}}, time.Second},
		{"it is late", []step{{0, time.Second}, {time.Second + mostLate, 0}}, time.Second + mostLate},
		{"it is woken early", []step{{0, time.Minute}, {time.Second, 0}}, time.Second},
		{"it was stopped", []step{{0, time.Second}, {time.Hour, 0}}, time.Second + mostLate},
		{"it was stopped while it was due", []step{{0, -time.Second}, {time.Hour, 0}}, mostLate},
		{"again and again", []step{{0, 0}, {time.Minute, 61 * time.Second}, {121 * time.Second, 121 * time.Second}, {200 * time.Second, 0}},
			mostLate + time.Second + mostLate + mostLate},
	} {
		var x Running
		for _, s := range c.steps {
			x.Runs(at(s.now))
			x.Rests(at(s.rests))
		}
		last := at(c.steps[len(c.steps)-1].now)
		if d := x.up(last).sub(upTime(at(0))); d != c.up {
			t.Errorf("%s: it has run for %v, want %v", c.name, d, c.up)
		}
		if when := x.when(x.up(last)); when != last {
			t.Errorf("%s: it is %v when it is %v", c.name, when, last)
		}
	}
	var x Running
	if x.up(at(0)) != upTime(at(0)) {
		t.Error("one that says nothing does not run")
	}
	// Before it says that it runs again time stands still, for goroutines that ask meanwhile.
	x.Runs(at(0))
	x.Rests(at(time.Second))
	end := x.up(at(time.Hour))
	x.Runs(at(time.Hour))
	if end != x.up(at(time.Hour)) || end != x.up(at(time.Minute)) || end != x.up(at(time.Second+mostLate)) {
		t.Error("the time in which it did not run counts")
	}
	if d := x.age(at(time.Hour+mostLate), at(500*time.Millisecond)); d != 500*time.Millisecond+2*mostLate {
		t.Errorf("half a second before it stopped is %v ago", d)
	}
}

// A receiver that did not run takes no publisher for lost, for however long that was, and again and again. A publisher
// that is silent while it runs is lost.
func TestReceiverThatDidNotRun(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 120 * time.Second, 3600 * time.Second} {
		l, runs := new(log), new(Running)
		r := newReceiver(t, l, nil)
		r.SetRunning(runs)
		now := Instant(time.Second)
		run := func() {
			if runs.Runs(now) > 0 {
				r.NoteStall(now)
			}
			r.Tick(now)
			replies(r, now)
			runs.Rests(r.Deadline())
		}
		r.Handle(now, 5, data(3, 10, 0))
		r.Handle(now, 5, data(3, 12, 0)) // 11 is missing
		run()
		for range 30 {
			now = now.Add(d)
			run()
			now = now.Add(10 * time.Millisecond)
			run()
		}
		if len(l.down) > 0 || len(l.gaps) > 0 {
			t.Errorf("30 times %v: down %v, gaps %v", d, l.down, l.gaps)
		}
		for end := now.Add(5 * time.Second); now < end; now = max(now.Add(time.Millisecond), min(r.Deadline(), end)) {
			run()
		}
		if len(l.down) != 1 {
			t.Errorf("after 5 s of silence: down %v", l.down)
		}
	}
}

// A sender whose loop did not run judges no member: not by the loop's goroutine, nor by a publisher's that goes on first. It
// takes in those whose statuses have lain unread, and takes no round trip from them.
func TestSenderThatDidNotRun(t *testing.T) {
	for _, first := range []string{"the loop", "a publisher"} {
		b := newBench(t, func(c *SenderConfig) { c.StallLimit = 30 * time.Second })
		b.status(1, 0, 4, 0)
		b.assign(8) // it has room for four
		for end := b.now.Add(900 * time.Millisecond); b.now < end; {
			b.s.Runs(b.now)
			b.next()
			b.s.Rests(b.s.Deadline())
			b.now = max(b.s.Deadline(), b.now+1)
		}
		if h, ok := b.s.Holder(b.now); !ok || h.For > time.Second {
			t.Fatalf("held up by %+v: %v", h, ok)
		}
		echo := uint64(b.now)
		unread := b.says(0, wire.Status{Receiver: 2, Next: 0, Limit: 100, Echo: echo, EchoDelay: time.Millisecond})
		b.now = b.now.Add(time.Hour)
		if first == "the loop" {
			b.s.Runs(b.now)
		}
		b.next()
		b.s.Handle(b.now, unread, nil)
		if st := b.s.Stats(); st.ReceiversSilent > 0 || st.ReceiversReleased > 0 || b.s.Receivers(0) != 2 {
			t.Errorf("%s goes on: %d silent, %d released, %d members", first, st.ReceiversSilent, st.ReceiversReleased, b.s.Receivers(0))
		}
		if h, _ := b.s.Holder(b.now); h.For > 2*time.Second || b.s.RTT() > time.Second {
			t.Errorf("%s goes on: held up for %v, a round trip of %v", first, h.For, b.s.RTT())
		}
	}
}

// A sender that stops again and again still releases a member that never answers: the time in which it runs counts,
// however short it is between two stops, if it has asked ten times since the last one. docs/protocol §8.4.
func TestSilentMemberOfASenderThatStops(t *testing.T) {
	const silence, runs, stops = 5 * time.Second, 2 * time.Second, 3 * time.Second
	b := newBench(t, func(c *SenderConfig) { c.Silence = silence })
	b.status(1, 0, 4, 0)
	b.assign(8) // it has room for four
	ran := time.Duration(0)
	for ; ran < 2*silence && b.s.Stats().ReceiversSilent == 0; ran += runs {
		for end := b.now.Add(runs); b.now < end; {
			b.s.Runs(b.now)
			b.next()
			b.s.Rests(b.s.Deadline())
			b.now = max(b.s.Deadline(), b.now+1)
		}
		b.now = b.now.Add(stops)
	}
	if b.s.Stats().ReceiversSilent != 1 || ran < silence {
		t.Errorf("after %v in which it ran %d members are released", ran, b.s.Stats().ReceiversSilent)
	}
}

// A repair that lay unread while the receiver did not run says nothing of the round trip.
func TestNoRoundTripAcrossAStandstill(t *testing.T) {
	r, runs := newReceiver(t, new(log), nil), new(Running)
	r.SetRunning(runs)
	now := Instant(time.Second)
	for seq := range uint64(20) {
		runs.Runs(now)
		r.Handle(now, 5, data(3, 2*seq+10, 0))
		replies(r, now) // what is missing before it is asked for
		runs.Rests(r.Deadline())
		if now = now.Add(50 * time.Microsecond); seq == 19 {
			now = now.Add(time.Hour)
		}
		runs.Runs(now)
		r.Handle(now, 5, data(3, 2*seq+9, wire.FlagRepair))
	}
	if rtt := r.Streams()[0].nak.rtt; !rtt.measured || rtt.value() > time.Millisecond || r.Stats().Repaired != 19 {
		t.Errorf("a round trip of %v after %d repairs", rtt.value(), r.Stats().Repaired)
	}
}

// A lost instance beside one that lives is kept for the time in which the receiver runs: it may not have run either.
func TestSupersededAcrossAStandstill(t *testing.T) {
	x, runs := newInstanceRig(t, nil), new(Running)
	x.r.SetRunning(runs)
	x.data(3, 0)
	x.pass(2*time.Second, 1, 3)
	x.pass(5*time.Second, 1, 4) // 3 is lost, a moment ago
	if len(x.down) != 1 {
		t.Fatalf("down %v", x.down)
	}
	runs.Runs(x.now)
	runs.Rests(x.r.Deadline())
	x.now = x.now.Add(time.Minute)
	if runs.Runs(x.now) > 0 {
		x.r.NoteStall(x.now)
	}
	replies(x.r, x.now)
	if n := len(x.r.Streams()); n != 2 {
		t.Errorf("%d streams after a minute in which it did not run, want 2", n)
	}
}

// How much a member receives that does not keep up is a rate of the time in which the sender ran.
func TestTrailingAcrossAStandstill(t *testing.T) {
	b := newBench(t, nil)
	b.status(1, 0, 1<<30, 0)
	b.s.Runs(b.now)
	b.publish(10)
	b.status(1, 5, 1<<30, 0)
	path := &b.s.members.list[0].path
	b.s.members.trailing.short, path.known, path.asked = true, true, 5
	b.s.Rests(b.now.Add(time.Second))
	b.now = b.now.Add(2 * time.Minute)
	b.s.Runs(b.now)
	if x, ok := b.s.TakeTrailing(b.now); !ok || x.For > 2*time.Second || x.Received < 4 || x.Sent < 8 {
		t.Errorf("%v: %+v", ok, x)
	}
	b.publish(3) // and it catches up
	b.status(1, 11, 1<<30, 0)
	b.s.members.trailing.short, path.asked = true, 5
	b.now = b.now.Add(2 * time.Second)
	b.s.Runs(b.now)
	if x, ok := b.s.TakeTrailing(b.now); ok {
		t.Errorf("it catches up: %+v", x)
	}
}
