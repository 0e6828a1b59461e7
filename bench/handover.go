package bench

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// ball is what two processors send to and fro: a line of the cache with nothing else in it.
type ball struct {
	_ [64]byte
	atomic.Uint32
	_ [60]byte
}

const (
	// handoverFor is for how long it is sent to and fro, and handoverTrips how many round trips lie between
	// two looks at the clock. The shortest time counts: neither processor did anything else then.
	handoverFor   = 5 * time.Millisecond
	handoverTrips = 100
	// handoverLeast is how many times there must be: of fewer none may have been undisturbed.
	handoverLeast = 10
	// handoverSpins is how often one looks in vain before it looks up.
	handoverSpins = 1024
	// handoverOver ends it.
	handoverOver = ^uint32(0)
)

// appendHandover measures, and adds the result to list if there is one.
func appendHandover(list []float64) []float64 {
	if ns := handover(); ns > 0 {
		list = append(list, ns)
	}
	return list
}

// handover is how many ns a line of the cache takes from one processor to another and back, measured by two threads
// wherever the kernel runs them. It is 0 where there is one processor, or where they never ran at the same time.
func handover() float64 {
	if min(runtime.GOMAXPROCS(0), runtime.NumCPU()) < 2 {
		return 0
	}
	var b ball
	other := make(chan struct{})
	go func() {
		defer close(other)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for next := uint32(1); ; next += 2 {
			for spins, v := 1, b.Load(); v != next; spins, v = spins+1, b.Load() {
				if v == handoverOver {
					return
				}
				if spins%handoverSpins == 0 {
					runtime.Gosched() // for who wants to stop the world
				}
			}
			b.CompareAndSwap(next, next+1) // not if it is over
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	least := b.trips(worker.Now() + int64(handoverFor))
	b.Store(handoverOver)
	<-other
	return least
}

// trips sends it until the deadline, and returns the shortest round trip in ns; 0 if there were too few.
func (b *ball) trips(deadline int64) (least float64) {
	next, times := uint32(1), 0
	for start := worker.Now(); start < deadline; {
		for range handoverTrips {
			b.Store(next)
			for spins := 1; b.Load() != next+1; spins++ {
				if spins%handoverSpins == 0 && worker.Now() > deadline {
					return enough(least, times)
				}
			}
			next += 2
		}
		now := worker.Now()
		if took := float64(now-start) / handoverTrips; least == 0 || took < least {
			least = took
		}
		start, times = now, times+1
	}
	return enough(least, times)
}

// enough is a time, or 0 where it is the least of too few.
func enough(least float64, times int) float64 {
	if times < handoverLeast {
		return 0
	}
	return least
}
