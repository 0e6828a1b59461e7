package engine

import (
	"testing"
	"time"
)

// Figures of one and of four subscribers on two processors: spinning is left out where it takes more than it brings.
func TestSpinAccount(t *testing.T) {
	const waits = 16_000
	for _, c := range []struct {
		name      string
		won, lost time.Duration // how long a spin takes
		lostShare int           // one in so many
		atLeast   int           // spins
		atMost    int
	}{
		{"processors idle", 8 * time.Microsecond, 30 * time.Microsecond, 50, waits, waits},
		{"packets just behind", lookFor, lookFor, waits, waits * 9 / 10, waits},
		{"processors busy", 22 * time.Microsecond, 94 * time.Microsecond, 6, waits / leftOut, waits / 3},
		{"nothing ever comes", 0, 100 * time.Microsecond, 1, waits / leftOut, waits/leftOut + 2},
		{"preempted now and then", 9 * time.Microsecond, time.Second, 100, waits * 9 / 10, waits},
	} {
		var a spinAccount
		spins := 0
		for range waits {
			if !a.pays() {
				continue
			}
			if spins++; spins%c.lostShare == 0 {
				a.spun(c.lost, false)
			} else {
				a.spun(c.won, true)
			}
		}
		if spins < c.atLeast || spins > c.atMost {
			t.Errorf("%s: %d spins of %d, want %d to %d", c.name, spins, waits, c.atLeast, c.atMost)
		}
		n := 0
		for ; n < 1000 && a.balance < mostBalance; n++ {
			if a.pays() {
				a.spun(time.Microsecond, true)
			}
		}
		if n == 1000 {
			t.Errorf("%s: after %d good ones the balance is %v", c.name, n, a.balance)
		}
	}
}
