package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

const aMinute = reliable.Instant(time.Minute)

// departureAt returns that of an idle bus whose last send ended at now.
func departureAt(now reliable.Instant, cost time.Duration) *departure {
	d := newDeparture(50*time.Microsecond, false, clock{epoch})
	d.cost, d.sent = cost, now
	d.came(now)
	return d
}

// virtual is a publisher of single messages on groups in turn, in virtual time, with a loop that
// sends what it leaves open.
type virtual struct {
	d      *departure
	now    reliable.Instant
	cost   time.Duration // of a send
	groups []virtualGroup
	turn   int

	singly int // messages that left by themselves
	sends  int
	alone  bool // no loop
}

type virtualGroup struct {
	opened   reliable.Instant // of what waits; 0: nothing
	messages uint64           // of it
}

func newVirtual(groups int, cost time.Duration) *virtual {
	return &virtual{d: departureAt(aMinute, cost), now: aMinute, cost: cost, groups: make([]virtualGroup, groups)}
}

// overdue has the loop send what has waited long enough, beside the publisher.
func (v *virtual) overdue() {
	for i := range v.groups {
		if g := &v.groups[i]; !v.alone && g.opened != 0 && v.now >= v.d.loopDue(g.opened) {
			v.d.overdue(g.messages)
			v.sent(g, v.d.loopDue(g.opened))
		}
	}
}

func (v *virtual) sent(g *virtualGroup, at reliable.Instant) (end reliable.Instant) {
	if g.opened != 0 {
		v.d.opened(-1)
	}
	*g = virtualGroup{}
	v.sends++
	end = at.Add(v.cost)
	v.d.took(at, end, true)
	v.d.did(end)
	return end
}

// publish publishes a message, or a few in one go.
func (v *virtual) publish(messages uint64) {
	v.overdue()
	g := &v.groups[v.turn%len(v.groups)]
	v.turn++
	v.d.came(v.now)
	g.messages += messages
	switch {
	case g.opened == 0 && v.d.atOnce(v.now):
		v.singly++
		v.now = v.sent(g, v.now)
	case g.opened == 0:
		g.opened = v.now
		v.d.opened(1)
	case v.now.Sub(g.opened) >= v.d.linger():
		v.d.overdue(g.messages)
		v.now = v.sent(g, v.now)
	}
}

// Messages half a send apart leave at once. Where they come closer busyAfter in a row do, and then they wait.
func TestAtOnce(t *testing.T) {
	const cost = 10 * time.Microsecond
	for _, c := range []struct {
		quiet time.Duration
		open  int
		wait  bool
	}{
		{cost/2 + 1, 0, false}, {cost / 2, 0, true}, {cost, 1, true}, {cost + 1, 1, false},
	} {
		d := departureAt(aMinute, cost)
		d.open, d.quiet = c.open, c.quiet
		for i := range 2 * busyAfter {
			if waits := !d.atOnce(aMinute); waits != (c.wait && i >= busyAfter) {
				t.Errorf("%v behind the last send, %d trains open: message %d waits: %v", c.quiet, c.open, i, waits)
			}
		}
	}
}

// A publisher that goes round many groups in a tight loop is busy, although each group
// is sent to rarely; one that takes its time sends each message by itself.
func TestManyGroups(t *testing.T) {
	for name, c := range map[string]struct {
		apart time.Duration
		want  bool
	}{
		"tight loop":      {80 * time.Nanosecond, false},
		"50,000 a second": {20 * time.Microsecond, true},
	} {
		const groups = 1000
		v := newVirtual(groups, 5*time.Microsecond)
		for range 10 * groups {
			v.now = v.now.Add(c.apart)
			v.publish(1)
		}
		if c.want && v.singly != 10*groups || !c.want && v.singly > busyAfter {
			t.Errorf("%s: %d of %d messages left at once", name, v.singly, 10*groups)
		}
	}
}

// A publisher that keeps a pace sends each message at once, alone or a few in one go; one that makes messages
// faster than they can be sent has them wait for each other.
func TestPace(t *testing.T) {
	const most = 10_000
	for _, c := range []struct {
		name               string
		pace, work, cost   time.Duration // pace: from message to message, whatever sends take; work: what making one takes
		atOnce, alsoAtOnce float64       // share of messages: at least, at most
		batch              uint64        // messages that come in one go
	}{
		{"a pace, little to send", 20 * time.Microsecond, 0, 5 * time.Microsecond, 1, 1, 1},
		{"a pace, half of it to send", 20 * time.Microsecond, 0, 10 * time.Microsecond, 1, 1, 1},
		{"a pace that sends cannot follow", 20 * time.Microsecond, 0, 25 * time.Microsecond, 0, 0.5, 1},
		{"as fast as they are made", 0, 100 * time.Nanosecond, 15 * time.Microsecond, 0, 0.01, 1},
		{"as fast as they are made, slowly", 0, 5 * time.Microsecond, 15 * time.Microsecond, 0, 0.01, 1},
		{"batches at a pace, little to send", 20 * time.Microsecond, 0, 5 * time.Microsecond, 1, 1, 16},
		{"batches at a pace, half of it to send", 20 * time.Microsecond, 0, 10 * time.Microsecond, 1, 1, 16},
		{"batches as fast as they are made", 0, 500 * time.Nanosecond, 15 * time.Microsecond, 0, 0.02, 16},
	} {
		v := newVirtual(1, c.cost)
		due := v.now
		for range most {
			v.now = v.now.Add(c.work)
			if due = due.Add(c.pace); c.pace > 0 {
				v.now = max(v.now, due)
			}
			v.publish(c.batch)
		}
		if got := float64(v.singly) / most; got < c.atOnce || got > c.alsoAtOnce {
			t.Errorf("%s: %.3f of messages leave at once, want %.3g to %.3g", c.name, got, c.atOnce, c.alsoAtOnce)
		}
	}
}

// A publisher that kept a pace and then publishes in bursts does not send them message for message.
func TestBurstsBehindAPace(t *testing.T) {
	const cost, burst = 15 * time.Microsecond, 16
	v := newVirtual(1, cost)
	for next := v.now; next < aMinute.Add(20*time.Millisecond); next = next.Add(20 * time.Microsecond) {
		v.now = max(v.now, next)
		v.publish(1)
	}
	v.sends = 0
	for range 100 {
		v.now = v.now.Add(2 * time.Millisecond)
		for range burst {
			v.publish(1)
			v.now = v.now.Add(100 * time.Nanosecond)
		}
	}
	if v.sends > 500 {
		t.Errorf("%d sends for 100 bursts of %d messages", v.sends, burst)
	}
}

// A publisher that signs sends less than 10,000 times a second, however its messages come and whatever a send takes.
// docs/protocol §29.7.
func TestSignedApart(t *testing.T) {
	for _, cost := range []time.Duration{25 * time.Microsecond, 60 * time.Microsecond, 120 * time.Microsecond} {
		for _, apart := range []time.Duration{time.Microsecond, 20 * time.Microsecond, 90 * time.Microsecond, 101 * time.Microsecond, time.Millisecond} {
			v := newVirtual(1, cost)
			v.d.apart, v.alone = signedApart, true
			for next := v.now; v.now < aMinute.Add(time.Second); next = next.Add(apart) {
				v.now = max(v.now, next)
				v.publish(1)
			}
			if v.sends > 10_000+4 {
				t.Errorf("%d sends in a second, of messages %v apart, of which each takes %v", v.sends, apart, cost)
			}
		}
	}
}

// A tight loop that is held up for a moment now and then goes on with its train; when it stops, and publishes single
// messages, they leave at once.
func TestHiccups(t *testing.T) {
	const cost = time.Microsecond
	for _, groups := range []int{1, 16} {
		v := newVirtual(groups, cost)
		loop := func(n int) {
			for i := range n {
				if v.now = v.now.Add(30 * time.Nanosecond); i%300 == 0 {
					v.now = v.now.Add(3 * time.Microsecond)
				}
				v.publish(1)
			}
		}
		loop(10_000)
		v.singly = 0
		if loop(30_000); v.singly > 10 {
			t.Errorf("%d groups: %d messages left by themselves, of 100 behind a hiccup", groups, v.singly)
		}
		for _, pause := range []time.Duration{time.Millisecond, 30 * time.Microsecond} {
			v.singly = 0
			for range 1000 {
				v.now = v.now.Add(pause)
				v.publish(1)
			}
			if v.singly < 980 {
				t.Errorf("%d groups: %d of 1000 messages %v apart left at once", groups, v.singly, pause)
			}
		}
	}
}

// A goroutine that publishes by several buses in turn, in a tight loop, is busy at each of them: its messages wait for each
// other. Where it makes a pause they leave at once, before each message and before a row of one for each.
func TestBusesInTurn(t *testing.T) {
	for _, cost := range []time.Duration{time.Microsecond, 7 * time.Microsecond} {
		for _, loops := range []int{1, 2, 4, 16} {
			for _, groups := range []int{1, 4} {
				var all []*virtual
				for range loops {
					all = append(all, newVirtual(groups, cost))
				}
				now := all[0].now
				// publish has n messages, each some time behind the one before, and the first of each row so much later.
				publish := func(n int, apart, pause time.Duration) (single int) {
					for i := range n {
						v := all[i%loops]
						if now = now.Add(apart); i%loops == 0 {
							now = now.Add(pause)
						}
						v.now, v.singly = now, 0
						v.publish(1)
						now = v.now
						single += v.singly
					}
					return single
				}
				const tight = 30 * time.Nanosecond
				publish(1000, time.Millisecond, 0)
				publish(20_000, tight, 0)
				if n := publish(20_000, tight, 0); n > 200 {
					t.Errorf("%v, %d loops of %d groups: %d of 20000 messages left by themselves in a tight loop", cost, loops, groups, n)
				}
				for _, pause := range []time.Duration{100 * time.Microsecond, time.Millisecond, 100 * time.Millisecond} {
					pause *= time.Duration(loops) // more than the sends of a row take
					publish(100*loops, 200*time.Nanosecond, pause)
					if n := publish(1000*loops, 200*time.Nanosecond, pause); n < 990*loops {
						t.Errorf("%v, %d loops of %d groups: %d of %d messages left at once in rows behind pauses of %v", cost, loops, groups, n, 1000*loops, pause)
					}
				}
			}
		}
	}
}

// How long trains wait, and when the loop sends them in place of publishers.
func TestLinger(t *testing.T) {
	const cost = 10 * time.Microsecond
	for _, c := range []struct {
		name             string
		open, row, steps int
		linger, loop     time.Duration
	}{
		{"one train", 1, 0, 0, 50 * time.Microsecond, 50 * time.Microsecond},
		{"several trains", 16, 0, busyAfter, 50 * time.Microsecond, 50 * time.Microsecond},
		{"several trains that fill", 16, 0, 2 * busyAfter, 2 * loopPark, 2 * loopPark},
		{"a row of sends of single messages", 1, rowSends, 0, 50 * time.Microsecond, 50 * time.Microsecond},
		{"a row of sends of trains", 1, rowSends, busyAfter, 50 * time.Microsecond, loopPark},
	} {
		d := departureAt(aMinute, cost)
		d.open, d.row, d.steps = c.open, c.row, c.steps
		if linger, loop := d.linger(), d.loopDue(aMinute).Sub(aMinute); linger != c.linger || loop != c.loop {
			t.Errorf("%s: %v, and by the loop %v, want %v and %v", c.name, linger, loop, c.linger, c.loop)
		}
	}
}

// Sends of new data that follow each other closely are a row, in which the loop leaves the publishers alone. It goes on, and
// again as soon as it does after a pause: the publisher may only have been held up. Heartbeats and repairs do not count.
func TestRow(t *testing.T) {
	d := departureAt(aMinute, time.Microsecond)
	now := aMinute
	send := func(gap time.Duration, fresh bool) (saturated bool) {
		now = now.Add(gap)
		d.took(now, now, fresh)
		_, saturated = d.parked()
		return saturated
	}
	for i := range 2 * rowSends {
		if got := send(rowPause-1, true); got != (i >= rowSends-1) {
			t.Fatalf("after %d sends in a row: saturated is %v", i+1, got)
		}
	}
	if send(rowPause, false); d.sent == now {
		t.Error("a heartbeat counts as data")
	}
	for range 8 {
		if !send(rowPause, true) {
			t.Error("short pauses have ended the row")
		}
	}
	for range rowSends {
		send(0, true)
	}
	if !send(time.Second, true) {
		t.Error("one pause has ended the row")
	}
	if until, _ := d.parked(); until != now.Add(loopPark) {
		t.Errorf("the loop leaves it alone for %v", until.Sub(now))
	}
	if send(time.Second, true) {
		t.Error("two pauses have not")
	}
}
