package ring

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// A cursor that jumps reports the number of skipped items, releases them, and continues at the requested item, or stays
// if it is already beyond it.
func TestJump(t *testing.T) {
	l := newTestLog(16, 16)
	c := l.Attach(false)
	for seq := range uint64(10) {
		l.testAppend(t, seq)
	}
	read := func(seq, skipped uint64) {
		t.Helper()
		it, _, ok := c.Lease()
		if !ok || it.Seq != seq || it.Skipped != skipped {
			t.Fatalf("item %+v, %v; want %d, %d skipped", it, ok, seq, skipped)
		}
		c.Return()
	}
	read(0, 0)
	c.Jump(l.Head() - 2)
	if l.Reclaim(); l.slots.Free() != 14 || c.Lag() != 2 {
		t.Errorf("%d slots are free, the cursor lags by %d, want 14 and 2", l.slots.Free(), c.Lag())
	}
	read(8, 7)
	c.Jump(3)
	read(9, 0)
	for seq := uint64(10); seq < 40; seq++ {
		if !l.testAppend(t, seq) {
			t.Fatal("a cursor that is not pinned blocks the producer")
		}
	}
	if !c.Overtaken() {
		t.Error("the cursor does not report that it was overtaken")
	}
	c.Jump(l.Head() - 1)
	if c.Overtaken() {
		t.Error("the cursor is overtaken after a jump")
	}
	read(39, 29)
}

// A cursor jumps while the producer overtakes it: every item is read or counted as skipped, once, and read
// items are whole.
func TestJumpWhileOvertaken(t *testing.T) {
	const items = 100_000
	l := newTestLog(32, 32)
	c := l.Attach(false)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 0))
		for next := uint64(0); next < items; {
			if rng.IntN(3) == 0 {
				c.Jump(next + rng.Uint64N(uint64(max(c.Lag(), 1)))) // not beyond the last item, else the loop does not end
			}
			it, b, ok := c.Lease()
			if !ok {
				runtime.Gosched()
				continue
			}
			if it.Seq != next+it.Skipped || binary.LittleEndian.Uint64(b) != it.Seq || binary.LittleEndian.Uint64(b[8:]) != ^it.Seq {
				t.Errorf("item %+v holds %d, want the item after %d and those skipped", it, binary.LittleEndian.Uint64(b), next)
				return
			}
			next = it.Seq + 1
			c.Return()
		}
	})
	for seq := uint64(0); seq < items; {
		if l.testAppend(t, seq) {
			if seq++; seq == items {
				break
			}
			continue
		}
		if l.Reclaim(); l.slots.Free() == 0 {
			l.Overtake(4)
		}
		runtime.Gosched()
	}
	wg.Wait()
}
