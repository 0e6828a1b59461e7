package ud

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Allocations do not overlap. When all are freed, one free span remains.
func TestSpans(t *testing.T) {
	const size = 1000
	var s spans
	s.give(0, size)
	rng := rand.New(rand.NewPCG(3, 4))
	owner := make([]int, size)
	held := map[int]int{} // offset to length
	for round := 1; round <= 5000; round++ {
		if n := 1 + rng.IntN(60); rng.IntN(2) == 0 {
			off, ok := s.alloc(n)
			if !ok {
				if run := longestFree(owner); run >= n {
					t.Fatalf("round %d: found no span of %d, but %d are free in one piece: %v", round, n, run, s)
				}
				continue
			}
			for i := off; i < off+n; i++ {
				if owner[i] != 0 {
					t.Fatalf("round %d: %d was allocated twice", round, i)
				}
				owner[i] = round
			}
			held[off] = n
			continue
		}
		for off, n := range held {
			s.give(off, n)
			clear(owner[off : off+n])
			delete(held, off)
			break
		}
	}
	for off, n := range held {
		s.give(off, n)
	}
	if !slices.Equal(s, spans{{0, size}}) {
		t.Errorf("everything was freed, but the free spans are %v", s)
	}
	if _, ok := s.alloc(size + 1); ok {
		t.Error("allocated more than exists")
	}
}

func longestFree(owner []int) (longest int) {
	run := 0
	for _, o := range owner {
		if run++; o != 0 {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}
