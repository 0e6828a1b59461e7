package bench

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// ball is what two processors hand each other: a line of the cache that nothing else lies in.
type ball struct {
	_ [64]byte
	atomic.Uint32
	_ [60]byte
}

const (
	// handoverFor is how long two processors hand it to each other, and handoverTrips how often they do between
	// two looks at the clock: the least time counts, in which none of them did anything else.
	handoverFor   = 5 * time.Millisecond
	handoverTrips = 100
	// handoverOver ends it.
	handoverOver = ^uint32(0)
)

// appendHandover adds one to list, if it is known.
func appendHandover(list []float64) []float64 {
	if ns := handover(); ns > 0 {
		list = append(list, ns)
	}
	return list
}

// handover is how many ns a line of the cache takes from one processor to another and back, by two threads wherever the
// kernel runs them; 0 where there is one processor, or they never ran at the same time.
func handover() float64 {
	if runtime.GOMAXPROCS(0) < 2 {
		return 0
	}
	var b ball
	other := make(chan struct{})
	go func() {
		defer close(other)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for next := uint32(1); ; next += 2 {
			for v := b.Load(); v != next; v = b.Load() {
				if v == handoverOver {
					return
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

// trips sends it there until the deadline, and returns how long it took at least there and back, in ns.
func (b *ball) trips(deadline int64) (least float64) {
	next := uint32(1)
	for start := worker.Now(); start < deadline; {
		for range handoverTrips {
			b.Store(next)
			for spins := 1; b.Load() != next+1; spins++ {
				if spins%1024 == 0 && worker.Now() > deadline {
					return least
				}
			}
			next += 2
		}
		now := worker.Now()
		if took := float64(now-start) / handoverTrips; least == 0 || took < least {
			least = took
		}
		start = now
	}
	return least
}
