package ring

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// A parked cursor does not block its log, and finds the item that woke it.
func TestPark(t *testing.T) {
	l := newTestLog(8, 8)
	c := l.Attach(true)
	if !c.Park() || !c.Parked() || c.Ready() || c.Lag() != 0 {
		t.Fatal("a cursor that has read all is not parked")
	}
	for seq := range uint64(100) {
		if seq == 50 {
			c.Wake()
		}
		if seq < 57 != l.Room() {
			t.Fatalf("room is %v at item %d, want %v", l.Room(), seq, seq < 57)
		}
		if seq == 57 {
			break
		}
		l.testAppend(t, seq)
		if seq < 50 {
			if _, _, ok := c.Lease(); ok || l.Backlog() != 0 {
				t.Fatalf("cursor reads item %d, backlog %d, want neither", seq, l.Backlog())
			}
		}
	}
	for seq := uint64(50); seq < 57; seq++ {
		if c.Park() != (seq > 50) && seq == 50 {
			t.Fatal("it is parked before it has read the item that woke it")
		}
		if c.Parked() {
			break
		}
		it, b, ok := c.Lease()
		if !ok || it.Seq != seq || binary.LittleEndian.Uint64(b) != seq {
			t.Fatalf("item %+v, want %d", it, seq)
		}
		c.Return()
	}
	if !c.Parked() {
		t.Error("it is not parked although no wanted item is left")
	}
	if !l.Room() {
		t.Fatal("a parked cursor blocks its log")
	}
	l.AppendNote(57, "note")
	if it, _, ok := c.Lease(); !ok || it.Note != "note" {
		t.Errorf("a note was missed: %+v", it)
	}
	c.Return()
	if !c.Park() {
		t.Error("it is not parked after a note")
	}
	l.End(59, "end")
	if it, _, ok := c.Lease(); !ok || it.Note != "end" {
		t.Errorf("the end was missed: %+v", it)
	}
	l.Detach(c)
	if len(l.active) != 0 || l.cursors.Len() != 0 {
		t.Error("a detached cursor stays in the log")
	}
}

// Many cursors want different items, and are parked and woken at random: each finds all its items, in order and intact.
func TestParkedCursorsMissNothing(t *testing.T) {
	const cursors, items = 8, 60_000
	l := newTestLog(64, 64)
	var wg sync.WaitGroup
	var over atomic.Bool
	type reader struct {
		c    *Cursor
		wake chan struct{}
		want []uint64
	}
	var readers []*reader
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	wanted := make([][]*reader, items)
	for i := range cursors {
		r := &reader{c: l.Attach(true), wake: make(chan struct{}, 1)}
		share := []int{1, 2, 10, 1000}[i%4]
		for seq := range uint64(items) {
			if rng.IntN(share) == 0 {
				r.want = append(r.want, seq)
				wanted[seq] = append(wanted[seq], r)
			}
		}
		r.c.Park()
		readers = append(readers, r)
	}
	for _, r := range readers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for next := 0; next < len(r.want) || !over.Load(); {
				it, b, ok := r.c.Lease()
				if !ok {
					if r.c.Park() {
						<-r.wake
					}
					continue
				}
				if got := binary.LittleEndian.Uint64(b); got != it.Seq {
					t.Errorf("item %d holds %d, want its number", it.Seq, got)
				}
				if next < len(r.want) && it.Seq >= r.want[next] {
					if it.Seq > r.want[next] {
						t.Errorf("item %d arrived instead of %d", it.Seq, r.want[next])
					}
					next++
				}
				r.c.Return()
			}
		}()
	}
	for seq := range uint64(items) {
		for !l.Room() {
			runtime.Gosched()
		}
		for l.slots.Free() == 0 {
			l.Reclaim()
			runtime.Gosched()
		}
		for _, r := range wanted[seq] {
			r.c.Wake()
		}
		l.testAppend(t, seq)
		for _, r := range wanted[seq] {
			select {
			case r.wake <- struct{}{}:
			default:
			}
		}
	}
	over.Store(true)
	for _, r := range readers {
		close(r.wake)
	}
	wg.Wait()
}

// A cursor that is overtaken by all its unread items, and then parks, reports with the next item how many it has
// skipped.
func TestParkAfterOvertaken(t *testing.T) {
	l := newTestLog(16, 16)
	c := l.Attach(false)
	for seq := range uint64(10) {
		l.testAppend(t, seq)
	}
	if it, _, ok := c.Lease(); !ok || it.Seq != 0 {
		t.Fatalf("Lease: item %+v, %v, want the item of sequence 0", it, ok)
	}
	c.Return()
	l.Overtake(16)
	if _, _, ok := c.Lease(); ok || !c.Park() {
		t.Fatal("the cursor finds an item")
	}
	l.testAppend(t, 10) // the cursor does not want this item
	c.Wake()
	l.testAppend(t, 11)
	if it, _, ok := c.Lease(); !ok || it.Seq != 11 || it.Skipped != 9 {
		t.Fatalf("%+v, %v; want 11, and 9 skipped", it, ok)
	}
	c.Return()
	if !c.Park() {
		t.Fatal("it does not park")
	}
	c.Wake()
	l.testAppend(t, 12)
	if it, _, ok := c.Lease(); !ok || it.Seq != 12 || it.Skipped != 0 {
		t.Errorf("%+v, %v; want 12, and none skipped", it, ok)
	}
}
