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
		t.Fatal("enter of a new gate did not return 0, want it shut")
	}
	g.open(2)
	if g.enter() != 2 || g.enter() != 0 || g.left() != 2 {
		t.Fatal("want an open gate to admit one goroutine at a time")
	}
	g.leave(1)
	if g.enter() != 1 {
		t.Fatal("a gate opened for 2 does not admit a second goroutine, want it admitted")
	}
	g.leave(0)
	if g.enter() != 0 {
		t.Fatal("a gate opened for 2 admits a third goroutine, want it refused")
	}
	g.open(3)
	if g.shut() != 3 || g.shut() != 0 || g.enter() != 0 {
		t.Fatal("want shut to return 3, then 0, and a shut gate to admit no goroutine")
	}
}

// shut waits until the goroutine inside has left, and sleeps meanwhile so that the goroutine can run.
func TestShutWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func(was func(time.Duration)) { Rest = was }(Rest)
		Rest = time.Sleep
		var g gate
		g.open(1)
		if g.enter() == 0 {
			t.Fatal("enter of an open gate returned 0, want 1")
		}
		var shut atomic.Bool
		go func() { g.shut(); shut.Store(true) }()
		time.Sleep(10 * time.Millisecond) // virtual time passes only if the waiter sleeps
		if shut.Load() {
			t.Error("shut returned while a goroutine is inside, want it to wait")
		}
		g.leave(1)
		time.Sleep(time.Millisecond)
		if !shut.Load() || g.enter() != 0 {
			t.Error("the gate is open after the goroutine has left, want it shut")
		}
	})
}

// Goroutines count inside the gate, and shut it sometimes to count under the mutex.
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
				t.Errorf("counters %d and %d, want one goroutine inside at a time", a, b)
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
		t.Errorf("counted %d, want %d; %d inside the gate and %d under the mutex, want some", a, 3*each, atGate.Load(), byMutex)
	}
}

func BenchmarkGate(b *testing.B) {
	var g gate
	g.open(1 << 62)
	for b.Loop() {
		g.leave(g.enter() - 1)
	}
}
