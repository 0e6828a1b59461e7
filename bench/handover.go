package bench

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

const (
	// handoverFor is how long two threads pass a cache line back and forth, and handoverTrips the number of
	// round trips between readings of the clock. The shortest time counts, because then neither processor
	// did anything else. With fewer than handoverMin times possibly all were disturbed.
	handoverFor   = 5 * time.Millisecond
	handoverTrips = 100
	handoverMin   = 10
	// handoverOver is the final value.
	handoverOver = ^uint32(0)
)

// sharedLine is an otherwise unused cache line.
type sharedLine struct {
	_ [64]byte
	atomic.Uint32
	_ [60]byte
}

// await waits for a value, and reports whether it was seen before the deadline and handoverOver.
func (b *sharedLine) await(want uint32, deadline int64) bool {
	for spins := 1; ; spins++ {
		switch b.Load() {
		case want:
			return true
		case handoverOver:
			return false
		}
		if spins%1024 == 0 {
			if worker.Now() > deadline {
				return false
			}
			runtime.Gosched() // let the runtime stop the world
		}
	}
}

// handover measures the time in ns that a cache line takes from one processor to another and back, on two processors
// chosen by the kernel. It returns none with one processor, or if the threads never ran concurrently.
func handover() []float64 {
	if min(runtime.GOMAXPROCS(0), runtime.NumCPU()) < 2 {
		return nil
	}
	b, deadline, done := new(sharedLine), worker.Now()+int64(handoverFor), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for next := uint32(1); b.await(next, deadline); next += 2 {
			b.CompareAndSwap(next, next+1) // fails after handoverOver
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer func() { b.Store(handoverOver); <-done }()
	var shortest float64
	for next, times, start := uint32(1), 0, worker.Now(); ; times++ {
		for range handoverTrips {
			if b.Store(next); !b.await(next+1, deadline) {
				if times < handoverMin {
					return nil
				}
				return []float64{shortest}
			}
			next += 2
		}
		now := worker.Now()
		if elapsed := float64(now-start) / handoverTrips; times == 0 || elapsed < shortest {
			shortest = elapsed
		}
		start = now
	}
}
