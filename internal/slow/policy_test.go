package slow

import (
	"testing"
	"time"
)

// The effect of each policy on publishers, on handlers, and on a cursor within its bound, beyond it, or overtaken.
func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		kind                     Kind
		blocks, blocksFree       bool
		blocksCrowded            bool
		other                    bool
		within, beyond, overtook Act
	}{
		{Auto, true, false, false, false, Read, Read, Read},
		{Block, true, true, true, false, Read, Read, Read},
		{Gap, false, false, false, true, Read, Read, Read},
		{Latest, false, false, false, true, Read, Jump, Jump},
		{Evict, false, false, false, true, Read, End, End},
	} {
		p := Policy{Kind: c.kind}
		if got := p.Blocks(false, false); got != c.blocks {
			t.Errorf("%d blocks a publisher that waits: %v, want %v", c.kind, got, c.blocks)
		}
		for _, crowded := range []bool{false, true} {
			if got := p.Blocks(true, crowded); got != c.blocksFree {
				t.Errorf("%d blocks a publisher without flow control: %v, crowded %v, want %v", c.kind, got, crowded, c.blocksFree)
			}
		}
		if got := p.Blocks(false, true); got != c.blocksCrowded {
			t.Errorf("%d blocks a publisher that waits, with a crowded conflation: %v, want %v", c.kind, got, c.blocksCrowded)
		}
		if got := p.OwnGoroutine(); got != c.other {
			t.Errorf("%d runs handlers in a separate goroutine: %v, want %v", c.kind, got, c.other)
		}
		for _, x := range []struct {
			lag       int
			overtaken bool
			want      Act
		}{{0, false, c.within}, {100, false, c.within}, {101, false, c.beyond}, {3, true, c.overtook}} {
			if got := p.Act(x.lag, 100, x.overtaken); got != x.want {
				t.Errorf("%d, %d packets behind of 100, overtaken %v: %d, want %d", c.kind, x.lag, x.overtaken, got, x.want)
			}
		}
	}
}

func TestBound(t *testing.T) {
	for _, c := range []struct{ behind, span, want int }{
		{0, 1000, 500}, {10, 1000, 10}, {500, 1000, 500}, {501, 1000, 500}, {0, 1, 1}, {5, 0, 1},
	} {
		if got := (Policy{Behind: c.behind}).Bound(c.span); got != c.want {
			t.Errorf("%d packets in a window of %d: %d, want %d", c.behind, c.span, got, c.want)
		}
	}
}

func TestLateness(t *testing.T) {
	var x Lateness
	for _, c := range []struct {
		now  time.Duration
		lag  int
		want time.Duration
	}{
		{1, 50, 0}, {2, 51, 0}, {5, 200, 3}, {9, 51, 7}, {10, 50, 0}, {12, 70, 0}, {13, 71, 1},
	} {
		if got := x.Record(c.now, c.lag, 100); got != c.want {
			t.Errorf("%d packets behind at %d: for %d, want %d", c.lag, c.now, got, c.want)
		}
	}
}
