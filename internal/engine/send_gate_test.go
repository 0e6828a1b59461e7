package engine

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGate(t *testing.T) {
	var g gate
	if g.enter() != 0 {
		t.Fatal("a new gate is open")
	}
	g.open(2)
	if g.enter() != 2 || g.enter() != 0 || g.left() != 2 {
		t.Fatal("an open gate lets one in at a time")
	}
	g.leave(1)
	if g.enter() != 1 {
		t.Fatal("a gate does not let in as many as it was opened for")
	}
	g.leave(0)
	if g.enter() != 0 {
		t.Fatal("a gate lets in more than it was opened for")
	}
	g.open(3)
	if g.shut() != 3 || g.shut() != 0 || g.enter() != 0 {
		t.Fatal("a shut gate lets a goroutine in")
	}
}

// A caller that shuts a gate waits until the goroutine inside has left, however long that takes, and lets it get there.
func TestShutWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func(was func(time.Duration)) { Rest = was }(Rest)
		Rest = time.Sleep
		var g gate
		g.open(1)
		if g.enter() == 0 {
			t.Fatal("an open gate is shut")
		}
		var shut atomic.Bool
		go func() { g.shut(); shut.Store(true) }()
		time.Sleep(10 * time.Millisecond) // of the bubble: none of it passes unless the waiter sleeps
		if shut.Load() {
			t.Error("the gate is shut, and a goroutine inside")
		}
		g.leave(1)
		time.Sleep(time.Millisecond)
		if !shut.Load() || g.enter() != 0 {
			t.Error("the gate is not shut, and no goroutine is inside")
		}
	})
}

// Several count at the gate, and shut it now and then to count by themselves.
func TestGateExclusion(t *testing.T) {
	const each = 200_000
	var (
		g        gate
		mu       sync.Mutex
		a, b     int // inside, or under mu with g shut
		atGate   atomic.Int64
		byMutex  int // under mu
		wg       sync.WaitGroup
		counting = func() {
			a++
			if a != b+1 {
				t.Error("two are inside")
			}
			b++
		}
	)
	for n := range 3 {
		wg.Go(func() {
			for i := range each {
				if i%100 != n {
					if left := g.enter(); left > 0 {
						counting()
						g.leave(left - 1)
						atGate.Add(1)
						continue
					}
				}
				mu.Lock()
				g.shut()
				counting()
				byMutex++
				g.open(1000)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if a != 3*each || atGate.Load() == 0 || byMutex == 0 {
		t.Errorf("%d counted, want %d; %d at the gate, %d by the mutex", a, 3*each, atGate.Load(), byMutex)
	}
}

func BenchmarkGate(b *testing.B) {
	var g gate
	g.open(1 << 62)
	for b.Loop() {
		g.leave(g.enter() - 1)
	}
}
