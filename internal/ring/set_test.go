package ring

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSetRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s Set[int]
	want := make(map[int]bool)
	for i := range 20_000 {
		v := random.IntN(60)
		if random.IntN(2+i/5000) == 0 { // phases with few values and with many
			if s.Add(v) == want[v] {
				t.Fatalf("Add %d: value was present: %v, want the opposite result", v, want[v])
			}
			want[v] = true
		} else {
			if s.Remove(v) != want[v] {
				t.Fatalf("Remove %d: value was present: %v, want the same result", v, want[v])
			}
			delete(want, v)
		}
		if s.Len() != len(want) || s.Has(v) != want[v] {
			t.Fatalf("%d values, %d expected; has %d: %v", s.Len(), len(want), v, s.Has(v))
		}
	}
	got := slices.Clone(s.List())
	slices.Sort(got)
	if len(slices.Compact(got)) != len(want) {
		t.Errorf("set has values %v, want %v", got, want)
	}
}

// Values are in the order of their addition, as long as none is removed.
func TestSetOrder(t *testing.T) {
	var s Set[int]
	for i := range 3 * few {
		s.Add(i)
	}
	if !slices.IsSorted(s.List()) {
		t.Errorf("list %v, want it sorted", s.List())
	}
	for i := range 3 * few {
		if !s.Remove(i) {
			t.Errorf("value %d is missing from the set", i)
		}
	}
	if s.Len() != 0 || s.at != nil {
		t.Errorf("%d values left in the set, want none and no storage", s.Len())
	}
}
