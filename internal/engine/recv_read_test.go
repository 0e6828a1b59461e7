package engine

import (
	"errors"
	"testing"
)

// Removing the oldest delivery moves few of the others, however many wait or are added.
func TestDeliveriesMoveLittle(t *testing.T) {
	const n = 20_000
	for _, meanwhile := range []int{0, 1} {
		var x deliveries
		want := make([]error, n)
		for i := range want {
			want[i] = errors.New("")
			x.push(Delivery{Err: want[i]})
		}
		moved := 0
		for i := 0; i < 3*n && x.len() > 0; i++ {
			if i == 2*n {
				meanwhile = 0
			}
			for range meanwhile {
				want = append(want, errors.New(""))
				x.push(Delivery{Err: want[len(want)-1]})
			}
			left := x.len() - 1
			var next *Delivery
			if left > 0 {
				next = &x.list[x.head+1]
			}
			if d := x.pop(); d.Err != want[i] {
				t.Fatalf("delivery %d is not the one that was added as number %d", i, i)
			}
			if x.len() != left {
				t.Fatalf("%d deliveries left, want %d", x.len(), left)
			}
			if left > 0 && &x.list[x.head] != next {
				moved += left
			}
			if len(x.list) > 2*left+1 {
				t.Fatalf("a list of %d for %d deliveries, want at most %d", len(x.list), left, 2*left+1)
			}
		}
		if x.len() > 0 || x.list != nil || moved > len(want) {
			t.Errorf("%d deliveries left, %d moved, want 0 and at most %d", x.len(), moved, len(want))
		}
	}
}
