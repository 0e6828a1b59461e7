package bias

import "testing"

// Each step is a use of the lock, by goroutine me, and what the tenure makes of it.
func TestTenure(t *testing.T) {
	type use struct {
		me, times uint64
		one       bool // the lock is one goroutine's
		want      change
	}
	for _, c := range []struct {
		name string
		uses []use
	}{
		{"alone for long", []use{{1, 0, false, noChange}, {1, leastUse - 1, false, noChange}, {1, 1, false, toMe}}},
		{"what others used it before does not count", []use{{1, 0, false, noChange}, {1, leastUse - 1, false, noChange}, {2, leastUse, false, noChange}, {2, leastUse - 1, false, noChange}, {2, 1, false, toMe}}},
		{"whose it is keeps it", []use{{1, 0, false, noChange}, {1, leastUse, false, toMe}, {1, mostUse, true, noChange}}},
		{"another takes it away, and it takes twice as long from then on", []use{
			{1, 0, false, noChange}, {1, leastUse, false, toMe}, {2, 1, true, toAll}, {2, 2*leastUse - 1, false, noChange}, {2, 1, false, toMe},
			{3, 1, true, toAll}, {3, 4*leastUse - 1, false, noChange}, {3, 1, false, toMe}}},
		{"who comes after one whose it is not takes nothing away", []use{{1, 0, false, noChange}, {2, 1, false, noChange}, {2, leastUse, false, toMe}}},
	} {
		var x tenure
		for i, u := range c.uses {
			want := u.want
			if want == toMe && !biases {
				want = noChange
			}
			if got := x.used(u.me, u.times, u.one); got != want {
				t.Errorf("%s: use %d: %v, want %v", c.name, i, got, want)
			}
		}
	}
	x := tenure{least: mostUse, last: 1}
	if x.used(2, 1, true); x.least != mostUse {
		t.Errorf("it takes %d uses, more than the most", x.least)
	}
}
