package reliable

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// The tests of this file check the rules of docs/protocol for publishers whose numbers no other test checks.

// Repairs may use a share of the data rate, or a window for each round trip, which grows and
// shrinks. docs/protocol §6.11.
func TestRepairBudget(t *testing.T) {
	const size, start = 1024, repairBurst / 1024
	repeat := &windowSlot{size: size, repairedAt: 1}
	first := &windowSlot{size: size}
	for _, c := range []struct {
		name    string
		data    int // bytes before the repairs of each round
		again   int // packets requested again in each
		e       *windowSlot
		history bool  // for late joiners
		rounds  []int // packets repaired in each, up to the budget
	}{
		{"no data", 0, 0, first, false, []int{start, 2 * start, 4 * start, 8 * start}},
		{"repeated repairs", 0, 0, repeat, false, []int{start, start / 2, start / 2, start / 3}},
		{"one in sixteen requested again", 0, 1, first, false, []int{start, start, start}},
		{"a quarter requested again", 0, 4, first, false, []int{start, start, start}},
		{"all requested again", 0, start, first, false, []int{start, start, start}},
		{"history", 0, 0, first, true, []int{start, 2 * start, 4 * start, 8 * start}},
		{"little data", size, 0, first, false, []int{0, 0, 0}},
		{"little data, history", size, 0, first, true, []int{start, start / 10, start / 10}},
		{"much data", 8 * start * size, 0, first, false, []int{4 * start, 4 * start, 4 * start}},
		{"much data, all requested again", 8 * start * size, 8 * start, first, false, []int{4 * start, 4 * start, 4 * start}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := Instant(time.Hour)
			var a repairAccount
			a.init(NewRepairBudget(noLock{}), 0.5, size, now)
			b := a.bus
			for i, want := range c.rounds {
				a.asked(startRTT)
				a.data, a.again = c.data, c.again
				a.add(now, false)
				n := 0
				for end := now.Add(startRTT); now < end; now = now.Add(startRTT / 100) {
					for a.takes(now, c.e, false, c.history, int(b.burst)) {
						n++
					}
				}
				if i == 0 {
					n -= start // the initial window
				}
				if n < want*3/4-1 || n > want+1 {
					t.Errorf("round trip %d: %d packets, want %d", i, n, want)
				}
			}
			now = now.Add(time.Minute) // no requests: the initial window again
			b.short = false
			b.tick(now)
			if b.window != repairBurst {
				t.Errorf("a window of %g bytes after a pause, want %d", b.window, repairBurst)
			}
		})
	}
}

// The groups of a bus share the budget: while one sends data, the others have no window of their own, but together
// a share of that data. A sender blocked by flow control does not count as busy. docs/protocol §6.11.
func TestGroupsShareTheRepairBudget(t *testing.T) {
	const size, groups = 1024, 16
	first := &windowSlot{size: size}
	for _, c := range []struct {
		name            string
		data            int // bytes of the first group in each round
		held            bool
		lowest, highest int // packets that all groups repair in 200 ms
	}{
		{"one sends much", 64 * size, false, 100 * 32 * 9 / 10, 100*32 + 2*repairBurst/size},
		{"one sends little", 2 * size, false, 100 * 9 / 10, 100 + 2*repairBurst/size},
		{"the sending one is blocked", 2 * size, true, 900 * repairBurst / size, 1100 * repairBurst / size},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := Instant(time.Hour)
			bus := NewRepairBudget(noLock{})
			accounts := make([]repairAccount, groups)
			for i := range accounts {
				accounts[i].init(bus, 0.5, size, now)
			}
			n := 0
			for range 100 {
				accounts[0].data = c.data
				accounts[0].add(now, c.held)
				for range 20 {
					for i := range accounts {
						accounts[i].asked(startRTT)
						accounts[i].again++ // the window of round trips without data does not grow
						for accounts[i].takes(now, first, c.held && i == 0, false, 0) {
							n++
						}
					}
					now = now.Add(repairBusy / 20)
				}
			}
			if n < c.lowest || n > c.highest {
				t.Errorf("%d packets repaired, want %d to %d", n, c.lowest, c.highest)
			}
		})
	}
}

// Groups of a bus with pending repairs get equal parts of the budget, even if one has many and is
// asked first each time. docs/protocol §6.11, §6.13.
func TestGroupsHaveEqualPartsOfTheRepairBudget(t *testing.T) {
	const size, groups, each = 1024, 16, 8
	e := &windowSlot{size: size}
	for _, history := range []bool{false, true} {
		for _, data := range []int{0, 4 * size} { // in each round, of the first group
			t.Run(fmt.Sprintf("history %v, data %d", history, data), func(t *testing.T) {
				now := Instant(time.Hour)
				bus := NewRepairBudget(noLock{})
				accounts, left := make([]repairAccount, groups), make([]int, groups)
				for i := range accounts {
					accounts[i].init(bus, 0.5, size, now)
					left[i] = each
				}
				left[0] = 1 << 30
				first, waiting := 0, groups-1
				for round := 0; waiting > 0; round++ {
					if round == 400 {
						t.Fatalf("%d groups still wait: %v packets are left", waiting, left[1:])
					}
					accounts[0].data = data
					accounts[0].add(now, false)
					for range 20 {
						for i := range accounts {
							for left[i] > 0 && accounts[i].takes(now, e, false, history, joinersBurst) {
								if left[i]--; i == 0 {
									first++
								} else if left[i] == 0 {
									waiting--
								}
							}
						}
						now = now.Add(repairBusy / 20)
					}
				}
				if first == 0 {
					t.Error("the first group had no turn")
				}
			})
		}
	}
}

// A window that has grown is reset after four round trips without waiting repairs, even if each had
// one. docs/protocol §6.11.
func TestRepairWindowAfterCalmRounds(t *testing.T) {
	now := Instant(time.Hour)
	var a repairAccount
	a.init(NewRepairBudget(noLock{}), 0.5, 1024, now)
	b := a.bus
	first := &windowSlot{size: 1024}
	for range 5 {
		a.asked(startRTT)
		for a.takes(now, first, false, false, 0) {
		}
		now = now.Add(startRTT)
	}
	if b.window <= repairBurst {
		t.Fatalf("a window of %g bytes", b.window)
	}
	for range 6 {
		a.asked(startRTT)
		a.takes(now, first, false, false, 0)
		now = now.Add(startRTT)
	}
	if b.window != repairBurst {
		t.Errorf("a window of %g bytes, want %d", b.window, repairBurst)
	}
}

// The round trip is that of the farthest receiver with requests: it increases at once, and decreases by half.
// docs/protocol §6.11.
func TestRepairBudgetFollowsTheRoundTrip(t *testing.T) {
	var a repairAccount
	a.init(NewRepairBudget(noLock{}), 0.5, 1472, 1)
	b := a.bus
	for _, rtt := range []time.Duration{time.Millisecond, 80 * time.Millisecond, 50 * time.Microsecond} {
		a.asked(rtt)
		a.asked(rtt / 2)
		before := b.rtt
		a.add(b.began.Add(b.rtt), false)
		if want := max(rtt, before/2); b.rtt != want {
			t.Errorf("a round trip of %v, want %v", b.rtt, want)
		}
		if want := b.window / b.rtt.Seconds(); b.rate != want {
			t.Errorf("%g bytes/s, want %g", b.rate, want)
		}
	}
}

// The cadence of statuses. docs/protocol §7.2.
func TestStatusCadence(t *testing.T) {
	for _, c := range []struct {
		members int
		rate    float64 // packets per second
		want    time.Duration
	}{
		{0, 0, time.Second},
		{1, 0, time.Second},
		{1, 10, time.Second},
		{1, 1000, 100 * time.Millisecond},
		{1, 1e6, 5 * time.Millisecond},
		{8, 10_000, 80 * time.Millisecond},
		{100, 10_000, time.Second},
		{1000, 10_000, 2 * time.Second},
		{1000, 0, 2 * time.Second},
	} {
		b := newBench(t, nil)
		for id := range c.members {
			b.status(uint64(id+1), 0, 100, 0)
		}
		b.s.heartbeat.rate.value = c.rate
		if got := b.s.statusEvery(); got.Round(time.Microsecond) != c.want {
			t.Errorf("%d members, %g packets/s: %v, want %v", c.members, c.rate, got, c.want)
		}
	}
}

// A blocked publisher solicits statuses, on the ladder. docs/protocol §8.3.
func TestBlockedPublisherSolicits(t *testing.T) {
	b := newBench(t, nil)
	b.next()
	b.status(1, 0, 1, 0)
	b.publish(1)
	b.put(b.topic("a.b"), 100)
	if r := b.s.Assign(b.now, b.w, true); r != events.ReasonFlow {
		t.Fatalf("Assign: %v", r)
	}
	var at []Instant
	for len(at) < 12 {
		b.now = max(b.now+1, b.s.Deadline())
		for _, p := range of(wire.TypeHeartbeat, b.next()) {
			if p.Flags&wire.FlagSolicit == 0 {
				t.Fatalf("heartbeat %d does not solicit", len(at))
			}
			at = append(at, b.now)
		}
		b.status(1, 1, 1, 0) // alive, without room
	}
	step := 2 * startRTT
	for i := range at[:len(at)-1] {
		if d := at[i+1].Sub(at[i]); d != min(step, slowHeartbeat) {
			t.Errorf("heartbeat %d is sent %v after the previous one, want %v", i+1, d, min(step, slowHeartbeat))
		}
		step *= 2
	}
}

// The back-off window grows and shrinks step by step. docs/protocol §6.8.
func TestBackoffLoop(t *testing.T) {
	const rtt = 200 * time.Microsecond
	s := &Sender{}
	r := &repairs{}
	now := Instant(time.Hour)
	for i, c := range []struct {
		fresh, again int
		want         time.Duration
	}{
		{10, 10, 0}, // equal: no reason
		{10, 11, rtt},
		{10, 11, 2 * rtt},
		{10, 5, 2 * rtt}, // unchanged between the limits
		{10, 11, 4 * rtt},
		{10, 2, 2 * rtt},
		{10, 2, rtt},
		{10, 0, rtt / 2},
		{10, 0, rtt / 4},
		{10, 0, 0},
	} {
		r.adapt(s, now, rtt) // begins a period
		now = max(now, r.countAt)
		r.fresh, r.duplicate = c.fresh, c.again
		if r.adapt(s, now.Add(4*rtt+r.backoff-1), rtt); r.fresh != c.fresh {
			t.Errorf("step %d is evaluated before the end of its period", i)
		}
		now = now.Add(4*rtt + r.backoff)
		r.adapt(s, now, rtt)
		if r.backoff != c.want {
			t.Errorf("step %d: %d requested, %d again: window %v, want %v", i, c.fresh, c.again, r.backoff, c.want)
		}
		r.advertised()
	}
	for range 20 {
		r.fresh, r.duplicate = 1, 2
		now = max(now, r.countAt).Add(time.Second)
		r.adapt(s, now, rtt)
		r.advertised()
	}
	if want := min(maxBackoff*rtt, maxBackoffTime); r.backoff != want {
		t.Errorf("the window grows to %v, want %v", r.backoff, want)
	}
}
