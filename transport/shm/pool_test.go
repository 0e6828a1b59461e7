package shm

import (
	"math/rand/v2"
	"testing"
)

// A chunk is free when all its holders have released it, and the chunk that was freed last is used first.
func TestPool(t *testing.T) {
	var p pool
	a, _ := p.alloc()
	b, _ := p.alloc()
	p.hold(a)
	p.drop(a)
	p.drop(b)
	if c, ok := p.alloc(); !ok || c != b {
		t.Errorf("alloc returned chunk %d, want %d, which was freed last", c, b)
	}
	p.drop(a)
	if c, ok := p.alloc(); !ok || c != a {
		t.Errorf("alloc returned chunk %d, want %d, which was freed last", c, a)
	}
	for p.left() > 0 {
		if _, ok := p.alloc(); !ok {
			t.Fatalf("got no chunk of %d", p.left())
		}
	}
	if _, ok := p.alloc(); ok {
		t.Error("got more chunks than exist")
	}
}

// However many readers stop, at any time, one that reads in time receives everything. docs/protocol §28.6.
func TestStoppedReadersLeaveEnough(t *testing.T) {
	for _, readers := range []int{2, 5, 100, lanes} {
		var p pool
		rng := rand.New(rand.NewPCG(uint64(readers), 1))
		stopped, out := make([]bool, readers), make([]int, readers)
		for i := range 100_000 {
			if i%(100_000/readers) == 0 { // all but the first stop, one after another
				stopped[min(i/(100_000/readers), readers-1)] = i > 0
			}
			chunk, ok := p.alloc()
			if !ok {
				t.Fatalf("%d readers: no chunk for train %d", readers, i)
			}
			for r := range readers {
				if !p.admits(out[r], laneSlots, readers) {
					if r == 0 {
						t.Fatalf("%d readers: the active reader does not receive train %d", readers, i)
					}
					continue
				}
				p.hold(chunk)
				if stopped[r] {
					out[r]++
				} else {
					p.drop(chunk) // read immediately
				}
			}
			p.drop(chunk)
			if rng.IntN(1000) == 0 && p.left() == 0 {
				t.Fatalf("%d readers: none is left", readers)
			}
		}
	}
}

// A lane never holds more trains than its depth.
func TestDepth(t *testing.T) {
	var p pool
	if !p.admits(9, 10, 1) || p.admits(10, 10, 1) {
		t.Error("a lane holds more than its depth of 10 trains")
	}
}

// An endpoint that holds nothing receives a train however little memory is free, and an endpoint that holds one at most
// its share.
func TestScarce(t *testing.T) {
	const readers = 40
	for _, c := range []struct {
		name                 string
		noMemory, fresh, own int
		out                  int
		want                 bool
	}{
		{"enough", 0, 0, 0, 100, true},
		{"windows hold more than is free", maxChunks - 151, 137, 136, 0, true},
		{"the same, and the reader holds one", maxChunks - 151, 137, 136, 1, false},
		{"two chunks in all, none free", maxChunks - 2, 2, 0, 0, true},
		{"the same, and the reader holds one", maxChunks - 2, 2, 0, 1, false},
		{"a share of more than one", 0, maxChunks - 10, 0, maxChunks/4/readers - 1, true},
		{"its share is used up", 0, maxChunks - 10, 0, maxChunks / 4 / readers, false},
	} {
		p := pool{noMemory: c.noMemory, fresh: c.fresh, owned: c.own}
		if got := p.admits(c.out, laneSlots, readers); got != c.want {
			t.Errorf("%s: a reader that holds %d is admitted: %v, want %v", c.name, c.out, got, c.want)
		}
	}
}

// Readers that stop, however many they are and however much they hold, do not make a chunk free that is still being
// read.
func TestManyHold(t *testing.T) {
	var p pool
	chunk, _ := p.alloc()
	for range 1 << 16 {
		p.hold(chunk)
	}
	if other, ok := p.alloc(); !ok || other == chunk || p.refs[chunk] == 1 {
		t.Errorf("chunk %d has %d references; chunk %d is used next", chunk, p.refs[chunk], other)
	}
}
