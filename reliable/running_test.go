package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Time in which the owner did not run does not count, however often that happens; its delays and
// its sleep count. docs/protocol §11.3.
func TestRunning(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant(time.Hour + d) }
	type step struct {
		now, rests time.Duration // when it runs, and until when it sleeps
	}
	for _, c := range []struct {
		name  string
		steps []step
		up    time.Duration // running time from the first step to the last
	}{
		{"in time", []step{{0, time.Second}, {time.Second, 2 * time.Second}}, time.Second},
		{"late", []step{{0, time.Second}, {time.Second + mostLate, 0}}, time.Second + mostLate},
		{"woken early", []step{{0, time.Minute}, {time.Second, 0}}, time.Second},
		{"stopped", []step{{0, time.Second}, {time.Hour, 0}}, time.Second + mostLate},
		{"stopped while due", []step{{0, -time.Second}, {time.Hour, 0}}, mostLate},
		{"repeatedly stopped", []step{{0, 0}, {time.Minute, 61 * time.Second}, {121 * time.Second, 121 * time.Second}, {200 * time.Second, 0}},
			mostLate + time.Second + mostLate + mostLate},
	} {
		var x Running
		for _, s := range c.steps {
			x.Runs(at(s.now))
			x.Rests(at(s.rests))
		}
		last := at(c.steps[len(c.steps)-1].now)
		if d := x.up(last).sub(upTime(at(0))); d != c.up {
			t.Errorf("%s: running time %v, want %v", c.name, d, c.up)
		}
		if when := x.when(x.up(last)); when != last {
			t.Errorf("%s: converted back to %v, want %v", c.name, when, last)
		}
	}
	var x Running
	if x.up(at(0)) != upTime(at(0)) {
		t.Error("without a call of Runs time does not advance")
	}
	// Before Runs is called again time does not advance, for goroutines that ask meanwhile.
	x.Runs(at(0))
	x.Rests(at(time.Second))
	end := x.up(at(time.Hour))
	x.Runs(at(time.Hour))
	if end != x.up(at(time.Hour)) || end != x.up(at(time.Minute)) || end != x.up(at(time.Second+mostLate)) {
		t.Error("time without running counts")
	}
	if d := x.age(at(time.Hour+mostLate), at(500*time.Millisecond)); d != 500*time.Millisecond+2*mostLate {
		t.Errorf("half a second before the stop is %v ago", d)
	}
}

// A receiver that did not run loses no publisher, however long or often that was. A publisher that
// is silent while it runs is lost.
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

// A sender whose loop did not run releases no member: neither in the loop's goroutine, nor in a publisher's
// that continues first. It accepts the members' unread statuses, without round trip samples from them.
func TestSenderThatDidNotRun(t *testing.T) {
	for _, first := range []string{"the loop", "a publisher"} {
		b := newBench(t, func(c *SenderConfig) { c.StallLimit = 30 * time.Second })
		b.status(1, 0, 4, 0)
		b.assign(8) // there is room for four
		for end := b.now.Add(900 * time.Millisecond); b.now < end; {
			b.s.Runs(b.now)
			b.next()
			b.s.Rests(b.s.Deadline())
			b.now = max(b.s.Deadline(), b.now+1)
		}
		if h, ok := b.s.Holder(b.now); !ok || h.For > time.Second {
			t.Fatalf("blocked by %+v: %v", h, ok)
		}
		echo := uint64(b.now)
		unread := b.statusOf(0, wire.Status{Receiver: 2, Next: 0, Limit: 100, Echo: echo, EchoDelay: time.Millisecond})
		b.now = b.now.Add(time.Hour)
		if first == "the loop" {
			b.s.Runs(b.now)
		}
		b.next()
		b.s.Handle(b.now, unread, nil)
		if st := b.s.Stats(); st.ReceiversSilent > 0 || st.ReceiversReleased > 0 || len(b.s.members.list) != 2 {
			t.Errorf("%s continues: %d silent, %d released, %d members", first, st.ReceiversSilent, st.ReceiversReleased, len(b.s.members.list))
		}
		if h, _ := b.s.Holder(b.now); h.For > 2*time.Second || b.s.RTT() > time.Second {
			t.Errorf("%s continues: blocked for %v, round trip %v", first, h.For, b.s.RTT())
		}
	}
}

// A sender that stops repeatedly still releases a member that never replies: the time in which it runs counts,
// however short between two stops, if it has solicited ten times since the last one. docs/protocol §8.4.
func TestSilentMemberOfASenderThatStops(t *testing.T) {
	const silence, runs, stops = 5 * time.Second, 2 * time.Second, 3 * time.Second
	b := newBench(t, func(c *SenderConfig) { c.Silence = silence })
	b.status(1, 0, 4, 0)
	b.assign(8) // there is room for four
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
		t.Errorf("after a running time of %v %d members are released", ran, b.s.Stats().ReceiversSilent)
	}
}

// A repair that lay unread while the receiver did not run is no sample of the round trip.
func TestNoRoundTripAcrossAStop(t *testing.T) {
	r, runs := newReceiver(t, new(log), nil), new(Running)
	r.SetRunning(runs)
	now := Instant(time.Second)
	for seq := range uint64(20) {
		runs.Runs(now)
		r.Handle(now, 5, data(3, 2*seq+10, 0))
		replies(r, now) // sends the NAK, before the stop
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

// A lost instance next to a live one is kept for the running time of the receiver: it may not have run either.
func TestSupersededAcrossAStop(t *testing.T) {
	x, runs := newInstanceRig(t, nil), new(Running)
	x.r.SetRunning(runs)
	x.data(3, 0)
	x.pass(2*time.Second, 1, 3)
	x.pass(5*time.Second, 1, 4) // 3 has just been lost
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
		t.Errorf("%d streams after a minute without running, want 2", n)
	}
}

// The receive rate of a slow member is relative to the running time of the sender.
func TestTrailingAcrossAStop(t *testing.T) {
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
