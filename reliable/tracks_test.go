package reliable

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The table agrees with a map, also for ids that agree in their low or high bits.
func TestTracks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, id := range map[string]func(int) uint64{
		"hashes":    func(i int) uint64 { return TopicID(fmt.Sprint(i)) },
		"low bits":  func(i int) uint64 { return uint64(i) << 32 },
		"high bits": func(i int) uint64 { return uint64(i) },
		"from zero": func(i int) uint64 { return ^uint64(0) - uint64(i%3)<<60 - uint64(i) },
	} {
		t.Run(name, func(t *testing.T) {
			var x tracks
			want := make(map[uint64]*Track)
			for range 5000 {
				id := id(rng.IntN(300))
				switch {
				case want[id] == nil:
					want[id] = &Track{ID: id}
					x.add(want[id])
				case rng.IntN(2) == 0:
					delete(want, id)
					x.remove(id)
				}
				x.remove(1<<63 + 12345)
				for i := range 3 {
					if id := id + uint64(i); x.get(id) != want[id] {
						t.Fatalf("id %#x: %v, want %v", id, x.get(id), want[id])
					}
				}
			}
			n := 0
			x.all(func(k *Track) {
				if n++; want[k.ID] != k {
					t.Errorf("%#x is not wanted", k.ID)
				}
			})
			if n != len(want) || n != x.count {
				t.Errorf("%d tracks, %d counted, want %d", n, x.count, len(want))
			}
		})
	}
}
