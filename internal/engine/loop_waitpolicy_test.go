package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// policyOf returns a policy that has recorded 1000 batches of that size and interval, the last at aMinute.
func policyOf(mode Wait, packets int, apart time.Duration) *waitPolicy {
	w := &waitPolicy{mode: mode, arrived: aMinute.Add(-1000 * apart)}
	for i := range 1000 {
		w.took(aMinute.Add(-time.Duration(999-i)*apart), packets)
	}
	return w
}

func TestWaitPolicySpins(t *testing.T) {
	for _, c := range []struct {
		name    string
		mode    Wait
		packets int
		apart   time.Duration
		now     time.Duration // since the last packets
		want    time.Duration // since the last packets; 0: no spin
	}{
		{"single packets", WaitAdaptive, 1, 20 * time.Microsecond, 0, 0},
		{"a flood of trains", WaitAdaptive, 44, 10 * time.Microsecond, time.Microsecond, minSpin},
		{"trains far apart", WaitAdaptive, 44, 40 * time.Microsecond, time.Microsecond, 80 * time.Microsecond},
		{"trains further apart", WaitAdaptive, 440, 400 * time.Microsecond, time.Microsecond, maxSpin},
		{"trains too far apart", WaitAdaptive, 44, 100 * time.Microsecond, 0, 0},
		{"park", WaitPark, 44, 10 * time.Microsecond, 0, 0},
		{"spin", WaitSpin, 1, time.Millisecond, 5 * time.Microsecond, 5*time.Microsecond + minSpin},
	} {
		w := policyOf(c.mode, c.packets, c.apart)
		until, ok := w.spinUntil(aMinute.Add(c.now))
		// Smoothing is inexact by some ns.
		if got := until.Sub(aMinute); ok != (c.want != 0) || ok && (got > c.want || got < c.want-time.Microsecond) {
			t.Errorf("%s: spins %v until %v after the last packets, want %v", c.name, ok, got, c.want)
		}
		if w.parks() != (c.mode != WaitSpin) {
			t.Errorf("%s: parks is %v, want %v", c.name, w.parks(), c.mode != WaitSpin)
		}
	}
}

// After one long pause a flood is soon fast again. After a flood, single packets are soon slow.
func TestWaitPolicyAdapts(t *testing.T) {
	w, now := policyOf(WaitAdaptive, 44, 10*time.Microsecond), aMinute.Add(time.Minute)
	n := 0
	for w.took(now, 44); !w.fast(); w.took(now, 44) {
		now = now.Add(10 * time.Microsecond)
		n++
	}
	if n > 20 {
		t.Errorf("fast %d trains after a pause, want at most 20", n)
	}
	for n = 0; w.fast(); n++ {
		now = now.Add(50 * time.Microsecond)
		w.took(now, 1)
	}
	if n > 4 {
		t.Errorf("slow %d packets after a flood, want at most 4", n)
	}
}

func TestWaitPolicyDrained(t *testing.T) {
	for _, c := range []struct {
		name         string
		apart        time.Duration
		trains, room int
		want         bool
	}{
		{"nothing", time.Millisecond, 0, 16, false},
		{"some", time.Millisecond, 1, 16, true},
		{"as many as fit", time.Millisecond, 16, 16, false},
		{"some of a flood", time.Microsecond, 1, 16, false},
	} {
		if got := policyOf(WaitAdaptive, 1, c.apart).drained(c.trains, c.room); got != c.want {
			t.Errorf("%s: drained is %v, want %v", c.name, got, c.want)
		}
	}
}

// A poll of a socket takes a microsecond, a poll of memory less. The policy yields by time, not by polls.
func TestWaitPolicyYields(t *testing.T) {
	for _, c := range []struct {
		mode Wait
		poll time.Duration
		want int // yields in 100 polls
	}{
		{WaitAdaptive, time.Microsecond, 100}, {WaitAdaptive, 50 * time.Nanosecond, 5}, {WaitSpin, time.Microsecond, 25}, {WaitSpin, 100 * time.Nanosecond, 3},
	} {
		w, n := waitPolicy{mode: c.mode}, 0
		for i := range 100 {
			if w.yields(aMinute.Add(time.Duration(i) * c.poll)) {
				n++
			}
		}
		if n != c.want {
			t.Errorf("mode %d, polls of %v: %d yields in 100 polls, want %d", c.mode, c.poll, n, c.want)
		}
	}
}

// The policy rarely spins while spins take more time than they save. The times were measured with one and with four
// subscribers on two processors.
func TestWaitPolicyPays(t *testing.T) {
	const waits = 16_000
	for _, c := range []struct {
		name      string
		won, lost time.Duration // time of a spin that finds packets, and of one that does not
		lostShare int           // one spin in so many is lost
		atLeast   int           // spins
		atMost    int
	}{
		{"processors idle", 8 * time.Microsecond, 30 * time.Microsecond, 50, waits, waits},
		{"spins that cost what they save", minSpin, minSpin, waits, waits * 9 / 10, waits},
		{"processors busy", 22 * time.Microsecond, 94 * time.Microsecond, 6, waits / spinCredit, waits / 3},
		{"no packets", 0, 100 * time.Microsecond, 1, waits / spinCredit, waits/spinCredit + 6},
		{"occasional preemption", 9 * time.Microsecond, time.Second, 100, waits * 9 / 10, waits},
	} {
		var w waitPolicy
		spins := 0
		for range waits {
			if !w.pays() {
				continue
			}
			if spins++; spins%c.lostShare == 0 {
				w.spun(c.lost, false)
			} else {
				w.spun(c.won, true)
			}
		}
		if spins < c.atLeast || spins > c.atMost {
			t.Errorf("%s: %d spins of %d, want %d to %d", c.name, spins, waits, c.atLeast, c.atMost)
		}
		n := 0
		for ; n < 1000 && w.balance < spinCredit*minSpin; n++ {
			if w.pays() {
				w.spun(time.Microsecond, true)
			}
		}
		if n == 1000 {
			t.Errorf("%s: the balance is %v after %d successful spins, want %v", c.name, w.balance, n, spinCredit*minSpin)
		}
	}
}

func TestWaitPolicyRests(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline reliable.Instant
		unneeded bool
		want     bool
	}{
		{"nothing is due", reliable.Never, true, false},
		{"due soon", aMinute.Add(loopPark / 2), true, false},
		{"due later", aMinute.Add(loopPark/2 + 1), true, true},
		{"needed", aMinute.Add(loopPark), false, false},
	} {
		var w waitPolicy
		if got := w.rests(aMinute, c.deadline, func() bool { return c.unneeded }); got != c.want {
			t.Errorf("%s: rests is %v, want %v", c.name, got, c.want)
		}
	}
}
