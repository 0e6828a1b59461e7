package inbox

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"
)

func newInbox(t testing.TB, trains, bytes int) *Inbox {
	t.Helper()
	q, err := New(trains, bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Free)
	return q
}

func never() bool { return false }

func TestOrderAndBound(t *testing.T) {
	q := newInbox(t, 3, 100)
	for round := range 10 { // the ring has 4 entries: wrap it
		for i := range 3 {
			s, mem, ok := q.Acquire()
			if !ok {
				t.Fatalf("round %d: slot %d refused", round, i)
			}
			mem[0] = byte(i)
			q.Publish(s, Item{Bytes: i + 1, SegmentSize: i + 1, Group: i})
		}
		if _, _, ok := q.Acquire(); ok {
			t.Fatal("a fourth slot of three")
		}
		var leases []uint64
		for i := range 3 {
			item, data, lease, ok := q.Next()
			if !ok || item.Group != i || len(data) != i+1 || data[0] != byte(i) {
				t.Fatalf("train %d: item %+v, data %v, %v, want group %d and %d bytes", i, item, data, ok, i, i+1)
			}
			leases = append(leases, lease)
		}
		if _, _, _, ok := q.Next(); ok {
			t.Fatal("got a train from an empty inbox")
		}
		for _, i := range []int{1, 0, 2} {
			q.Release(leases[i])
		}
	}
}

func TestDiscard(t *testing.T) {
	q := newInbox(t, 1, 8)
	s, _, _ := q.Acquire()
	q.Discard(s)
	if _, _, ok := q.Acquire(); !ok {
		t.Fatal("the discarded slot is lost")
	}
}

func TestDoubleReleasePanics(t *testing.T) {
	q := newInbox(t, 2, 8)
	s, _, _ := q.Acquire()
	q.Publish(s, Item{Bytes: 1, SegmentSize: 1})
	_, _, lease, _ := q.Next()
	q.Release(lease)
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	q.Release(lease)
}

// Each producer's trains arrive complete and in order. The consumer sleeps in between, so that a lost wake-up would
// hang the test.
func TestManyProducers(t *testing.T) {
	const producers, each = 4, 20000
	q := newInbox(t, 64, 64)
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := 0; i < each; {
				s, mem, ok := q.Acquire()
				if !ok {
					time.Sleep(time.Microsecond)
					continue
				}
				n := 8 + i%50
				binary.LittleEndian.PutUint64(mem, uint64(i))
				for j := 8; j < n; j++ {
					mem[j] = byte(p)
				}
				q.Publish(s, Item{Bytes: n, SegmentSize: n, Group: p})
				i++
			}
		})
	}
	var next [producers]uint64
	for got := 0; got < producers*each; {
		item, data, lease, ok := q.Next()
		if !ok {
			q.Wait(-1, never)
			continue
		}
		p := item.Group
		if seq := binary.LittleEndian.Uint64(data); seq != next[p] {
			t.Fatalf("producer %d: train %d, want %d", p, seq, next[p])
		}
		for _, b := range data[8:] {
			if b != byte(p) {
				t.Fatalf("producer %d: foreign byte %#x", p, b)
			}
		}
		next[p]++
		q.Release(lease)
		got++
	}
	wg.Wait()
}

func TestWait(t *testing.T) {
	q := newInbox(t, 2, 8)
	q.Wait(0, never)
	q.Wait(time.Millisecond, never)                        // the timeout ends it
	q.Wait(-1, func() bool { return true })                // more() ends it
	q.Wake()                                               // a wake-up in advance
	q.Wait(-1, never)                                      //
	go func() { time.Sleep(time.Millisecond); q.Wake() }() // and one during the wait
	q.Wait(-1, never)
	s, _, _ := q.Acquire()
	q.Publish(s, Item{Bytes: 1, SegmentSize: 1})
	q.Wait(-1, never) // a train is waiting
	if !q.Ready() {
		t.Fatal("not ready")
	}
}

func TestNothingIsAllocated(t *testing.T) {
	q := newInbox(t, 8, 64)
	if n := testing.AllocsPerRun(1000, func() {
		s, _, _ := q.Acquire()
		q.Publish(s, Item{Bytes: 64, SegmentSize: 64})
		q.Wait(time.Second, never)
		_, _, lease, _ := q.Next()
		q.Release(lease)
		q.Wait(time.Microsecond, never)
	}); n != 0 {
		t.Fatalf("%v allocations per train, want none", n)
	}
}

func BenchmarkPassTrain(b *testing.B) {
	q := newInbox(b, 64, 64)
	for b.Loop() {
		s, _, _ := q.Acquire()
		q.Publish(s, Item{Bytes: 64, SegmentSize: 64})
		_, _, lease, _ := q.Next()
		q.Release(lease)
	}
}
