package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

const aMinute = reliable.Instant(time.Minute)

// departureAt returns the departure of an idle bus whose last send ended at now.
func departureAt(now reliable.Instant, cost time.Duration) *departure {
	d := newDeparture(50*time.Microsecond, false, clock{start: epoch})
	d.cost, d.sent = cost, now
	d.came(now)
	return d
}

// virtualBus publishes to its groups in turn, in virtual time. Its loop sends trains that are due.
type virtualBus struct {
	d      *departure
	now    reliable.Instant
	cost   time.Duration // of a send
	groups []virtualGroup
	turn   int

	atOnce int // messages that were sent at once
	sends  int
	noLoop bool // the loop sends nothing
}

type virtualGroup struct {
	opened   reliable.Instant // when the open train was opened; 0: none is open
	messages uint64           // in the open train
}

func newVirtual(groups int, cost time.Duration) *virtualBus {
	return &virtualBus{d: departureAt(aMinute, cost), now: aMinute, cost: cost, groups: make([]virtualGroup, groups)}
}

// overdue makes the loop send the trains that are due, without delaying the publisher.
func (v *virtualBus) overdue() {
	for i := range v.groups {
		if g := &v.groups[i]; !v.noLoop && g.opened != 0 && v.now >= v.d.loopDue(g.opened) {
			v.d.overdue(g.messages)
			v.sent(g, v.d.loopDue(g.opened))
		}
	}
}

func (v *virtualBus) sent(g *virtualGroup, at reliable.Instant) (end reliable.Instant) {
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

// publish publishes a batch of messages to the next group.
func (v *virtualBus) publish(messages uint64) {
	v.overdue()
	g := &v.groups[v.turn%len(v.groups)]
	v.turn++
	v.d.came(v.now)
	g.messages += messages
	switch {
	case g.opened == 0 && v.d.atOnce(v.now):
		v.atOnce++
		v.now = v.sent(g, v.now)
	case g.opened == 0:
		g.opened = v.now
		v.d.opened(1)
	case v.now.Sub(g.opened) >= v.d.linger():
		v.d.overdue(g.messages)
		v.now = v.sent(g, v.now)
	}
}

// Messages more than half a send apart leave at once. Of closer ones, busyAfter in a row leave at once and later ones wait.
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
				t.Errorf("quiet for %v, %d open trains: message %d waits: %v, want %v", c.quiet, c.open, i, waits, !waits)
			}
		}
	}
}

// A publisher to many groups in a tight loop is busy, although each group rarely gets a message. A slower publisher sends
// each message at once.
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
		if c.want && v.atOnce != 10*groups || !c.want && v.atOnce > busyAfter {
			t.Errorf("%s: %d of %d messages left at once; want all: %v", name, v.atOnce, 10*groups, c.want)
		}
	}
}

// A publisher with a steady rate sends each message or batch at once. If messages are published faster than they can be
// sent, they wait for each other.
func TestSteadyRate(t *testing.T) {
	const batches = 10_000
	for _, c := range []struct {
		name                 string
		interval, work, cost time.Duration // interval: of the batches' due times; work: time to make a batch
		min, max             float64       // share of batches that leave at once
		batch                uint64        // messages published together
	}{
		{"steady rate, sends take a quarter of the interval", 20 * time.Microsecond, 0, 5 * time.Microsecond, 1, 1, 1},
		{"steady rate, sends take half of the interval", 20 * time.Microsecond, 0, 10 * time.Microsecond, 1, 1, 1},
		{"steady rate, sends take more than the interval", 20 * time.Microsecond, 0, 25 * time.Microsecond, 0, 0.5, 1},
		{"tight loop", 0, 100 * time.Nanosecond, 15 * time.Microsecond, 0, 0.01, 1},
		{"loop with work", 0, 5 * time.Microsecond, 15 * time.Microsecond, 0, 0.01, 1},
		{"steady batches, sends take a quarter of the interval", 20 * time.Microsecond, 0, 5 * time.Microsecond, 1, 1, 16},
		{"steady batches, sends take half of the interval", 20 * time.Microsecond, 0, 10 * time.Microsecond, 1, 1, 16},
		{"tight loop of batches", 0, 500 * time.Nanosecond, 15 * time.Microsecond, 0, 0.02, 16},
	} {
		v := newVirtual(1, c.cost)
		due := v.now
		for range batches {
			v.now = v.now.Add(c.work)
			if due = due.Add(c.interval); c.interval > 0 {
				v.now = max(v.now, due)
			}
			v.publish(c.batch)
		}
		if got := float64(v.atOnce) / batches; got < c.min || got > c.max {
			t.Errorf("%s: a share of %.3f left at once, want %.3g to %.3g", c.name, got, c.min, c.max)
		}
	}
}

// A publisher that had a steady rate and then publishes bursts does not send each of their messages at once.
func TestBurstsAfterSteadyRate(t *testing.T) {
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
		t.Errorf("%d sends for 100 bursts of %d messages, want at most 500", v.sends, burst)
	}
}

// A publisher that signs sends at most 10,000 times a second, at any message rate and send time. docs/protocol §29.7.
func TestSignedApart(t *testing.T) {
	for _, cost := range []time.Duration{25 * time.Microsecond, 60 * time.Microsecond, 120 * time.Microsecond} {
		for _, apart := range []time.Duration{time.Microsecond, 20 * time.Microsecond, 90 * time.Microsecond, 101 * time.Microsecond, time.Millisecond} {
			v := newVirtual(1, cost)
			v.d.apart, v.noLoop = signedApart, true
			for next := v.now; v.now < aMinute.Add(time.Second); next = next.Add(apart) {
				v.now = max(v.now, next)
				v.publish(1)
			}
			if v.sends > 10_000+4 {
				t.Errorf("messages %v apart, sends of %v: %d sends in a second, want at most 10004", apart, cost, v.sends)
			}
		}
	}
}

// Messages of a tight loop with occasional short pauses wait for each other. When the loop ends, single messages leave at
// once.
func TestShortPauses(t *testing.T) {
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
		v.atOnce = 0
		if loop(30_000); v.atOnce > 10 {
			t.Errorf("%d groups: %d messages with 100 short pauses left at once, want at most 10", groups, v.atOnce)
		}
		for _, pause := range []time.Duration{time.Millisecond, 30 * time.Microsecond} {
			v.atOnce = 0
			for range 1000 {
				v.now = v.now.Add(pause)
				v.publish(1)
			}
			if v.atOnce < 980 {
				t.Errorf("%d groups: %d of 1000 messages %v apart left at once, want at least 980", groups, v.atOnce, pause)
			}
		}
	}
}

// If a goroutine publishes by several buses in turn in a tight loop, each bus is busy and its messages wait for each other.
// If the goroutine pauses before each message, or before each round of the buses, messages leave at once.
func TestBusesInTurn(t *testing.T) {
	for _, cost := range []time.Duration{time.Microsecond, 7 * time.Microsecond} {
		for _, loops := range []int{1, 2, 4, 16} {
			for _, groups := range []int{1, 4} {
				var all []*virtualBus
				for range loops {
					all = append(all, newVirtual(groups, cost))
				}
				now := all[0].now
				// publish publishes n messages at the interval apart, with a pause before each round of the buses.
				publish := func(n int, apart, pause time.Duration) (atOnce int) {
					for i := range n {
						v := all[i%loops]
						if now = now.Add(apart); i%loops == 0 {
							now = now.Add(pause)
						}
						v.now, v.atOnce = now, 0
						v.publish(1)
						now = v.now
						atOnce += v.atOnce
					}
					return atOnce
				}
				const tight = 30 * time.Nanosecond
				publish(1000, time.Millisecond, 0)
				publish(20_000, tight, 0)
				if n := publish(20_000, tight, 0); n > 200 {
					t.Errorf("%v a send, %d loops of %d groups: %d of 20000 messages in a tight loop left at once, want at most 200", cost, loops, groups, n)
				}
				for _, pause := range []time.Duration{100 * time.Microsecond, time.Millisecond, 100 * time.Millisecond} {
					pause *= time.Duration(loops) // longer than the sends of a round
					publish(100*loops, 200*time.Nanosecond, pause)
					if n := publish(1000*loops, 200*time.Nanosecond, pause); n < 990*loops {
						t.Errorf("%v a send, %d loops of %d groups: %d of %d messages left at once with pauses of %v, want at least %d", cost, loops, groups, n, 1000*loops, pause, 990*loops)
					}
				}
			}
		}
	}
}

// How long trains wait for publishers, and for the loop.
func TestLinger(t *testing.T) {
	const cost = 10 * time.Microsecond
	for _, c := range []struct {
		name             string
		open, row, steps int
		linger, loop     time.Duration
	}{
		{"one train", 1, 0, 0, 50 * time.Microsecond, 50 * time.Microsecond},
		{"several trains", 16, 0, busyAfter, 50 * time.Microsecond, 50 * time.Microsecond},
		{"several trains that hold much", 16, 0, 2 * busyAfter, 2 * loopPark, 2 * loopPark},
		{"a row of sends of single messages", 1, rowSends, 0, 50 * time.Microsecond, 50 * time.Microsecond},
		{"a row of sends of trains", 1, rowSends, busyAfter, 50 * time.Microsecond, loopPark},
	} {
		d := departureAt(aMinute, cost)
		d.open, d.row, d.steps = c.open, c.row, c.steps
		if linger, loop := d.linger(), d.loopDue(aMinute).Sub(aMinute); linger != c.linger || loop != c.loop {
			t.Errorf("%s: linger %v, sent by the loop after %v, want %v and %v", c.name, linger, loop, c.linger, c.loop)
		}
	}
}

// After rowSends sends of new data in a row the loop leaves the bus to its publishers. One pause does not end the row,
// because the publisher may have lost its processor. Heartbeats and repairs do not count.
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
			t.Fatalf("after %d sends in a row: saturated is %v, want %v", i+1, got, !got)
		}
	}
	if send(rowPause, false); d.sent == now {
		t.Error("a heartbeat counts as new data, want it ignored")
	}
	for range 8 {
		if !send(rowPause, true) {
			t.Error("not saturated after short pauses, want saturated")
		}
	}
	for range rowSends {
		send(0, true)
	}
	if !send(time.Second, true) {
		t.Error("not saturated after one long pause, want saturated")
	}
	if until, _ := d.parked(); until != now.Add(loopPark) {
		t.Errorf("the loop leaves the bus to its publishers for %v, want %v", until.Sub(now), loopPark)
	}
	if send(time.Second, true) {
		t.Error("saturated after two long pauses, want not saturated")
	}
}
