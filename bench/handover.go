package bench

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

const (
	// handoverFor is for how long a line of the cache is sent to and fro, and handoverTrips how many
	// round trips lie between two looks at the clock. The shortest time counts: neither processor did
	// anything else then. Of fewer than handoverLeast times none may have been undisturbed.
	handoverFor   = 5 * time.Millisecond
	handoverTrips = 100
	handoverLeast = 10
	// handoverOver ends it.
	handoverOver = ^uint32(0)
)

// ball is a line of the cache with nothing else in it.
type ball struct {
	_ [64]byte
	atomic.Uint32
	_ [60]byte
}

// await waits for a value, and reports whether it came before the deadline and the end.
func (b *ball) await(want uint32, deadline int64) bool {
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
			runtime.Gosched() // the runtime may want to stop the world
		}
	}
}

// handover is how many ns a line of the cache takes from one processor to another and back, measured by two threads
// wherever the kernel runs them; none where there is one processor, or where they never ran at the same time.
func handover() []float64 {
	if min(runtime.GOMAXPROCS(0), runtime.NumCPU()) < 2 {
		return nil
	}
	b, deadline, done := new(ball), worker.Now()+int64(handoverFor), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for next := uint32(1); b.await(next, deadline); next += 2 {
			b.CompareAndSwap(next, next+1) // not if it is over
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer func() { b.Store(handoverOver); <-done }()
	var least float64
	for next, times, start := uint32(1), 0, worker.Now(); ; times++ {
		for range handoverTrips {
			if b.Store(next); !b.await(next+1, deadline) {
				if times < handoverLeast {
					return nil
				}
				return []float64{least}
			}
			next += 2
		}
		now := worker.Now()
		if took := float64(now-start) / handoverTrips; times == 0 || took < least {
			least = took
		}
		start = now
	}
}
