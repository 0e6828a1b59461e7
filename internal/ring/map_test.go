package ring

import (
	"math/rand/v2"
	"testing"
)

// The table behaves as Go's map, also for ids with the same low or high bits.
func TestMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, id := range map[string]func(int) uint64{
		"hashes":    func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 },
		"low bits":  func(i int) uint64 { return uint64(i) << 32 },
		"high bits": func(i int) uint64 { return uint64(i) },
		"the last":  func(i int) uint64 { return ^uint64(0) - uint64(i%3)<<60 - uint64(i) },
	} {
		t.Run(name, func(t *testing.T) {
			var m Map[int]
			want := make(map[uint64]*int)
			for n := range 5000 {
				id := id(rng.IntN(300))
				switch {
				case want[id] == nil:
					want[id] = &n
					m.Add(id, &n)
				case rng.IntN(2) == 0:
					delete(want, id)
					m.Remove(id)
				}
				m.Remove(1<<63 + 12345)
				for i := range uint64(3) {
					if m.Get(id+i) != want[id+i] {
						t.Fatalf("id %#x: %v, want %v", id+i, m.Get(id+i), want[id+i])
					}
				}
			}
			n := 0
			m.All(func(id uint64, v *int) {
				if n++; want[id] != v {
					t.Errorf("All returns the unknown id %#x", id)
				}
			})
			if n != len(want) || n != m.Len() {
				t.Errorf("%d ids, %d counted, want %d", n, m.Len(), len(want))
			}
		})
	}
}

// Ids that were chosen to collide do not: otherwise a client that chooses topic names could make each lookup probe
// 100,000 others.
func TestCollidingIds(t *testing.T) {
	var m Map[int]
	v := 0
	for i := range uint64(100_000) {
		m.Add(i*0xd6e8feb86659fd93>>20, &v) // the high bits are 0
	}
	if m.mixed == 0 || m.mixed == maxMixed {
		t.Errorf("hash mixed %d times, want 1 to %d", m.mixed, maxMixed-1)
	}
	longest, mask := uint64(0), uint64(len(m.slots)-1)
	for i, s := range m.slots {
		if s.v != nil {
			longest = max(longest, (uint64(i)-s.id*m.factor>>m.shift)&mask)
		}
	}
	if longest > maxProbes {
		t.Errorf("a lookup probes %d others, want at most %d", longest, maxProbes)
	}
	for i := range uint64(100_000) {
		if m.Get(i*0xd6e8feb86659fd93>>20) != &v {
			t.Fatal("an id is not found")
		}
	}
}
