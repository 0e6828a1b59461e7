package engine

import (
	"sync/atomic"
	"time"
)

// gate lets one goroutine at a time append to the open packet without the publication's lock, as often as was
// granted: the next message takes the lock and reads the clock. The zero value is shut. docs/decisions/11-gate.md.
type gate struct {
	state atomic.Uint64 // twice how many may still enter, and 1 while a goroutine is inside
}

// enter takes the gate. It returns how many may still enter, the caller included; 0: the gate is shut, or taken.
func (g *gate) enter() uint64 {
	v := g.state.Load()
	if v&1 == 0 && v != 0 && g.state.CompareAndSwap(v, v|1) {
		return v >> 1
	}
	return 0
}

// leave leaves the gate, which so many may still enter.
func (g *gate) leave(left uint64) { storeRelease(&g.state, left<<1) }

// left is how many may still enter, the goroutine that is inside included.
func (g *gate) left() uint64 { return g.state.Load() >> 1 }

// open lets so many enter, of a gate that is shut. The caller holds the publication's lock.
func (g *gate) open(n uint64) { g.state.Store(n << 1) }

// shut waits until no goroutine is inside, and lets no more enter. It returns how many still could. Under mu.
//
// A goroutine that is inside leaves when it has copied a message, unless the kernel or the scheduler has taken its
// processor away. Then to look on, or to let other goroutines run, which soon want this gate as well, would keep
// from it what it needs: so the caller sleeps.
func (g *gate) shut() uint64 {
	for looks := 1; ; looks++ {
		// While it is taken nothing is written to its line, which the goroutine inside needs.
		if v := g.state.Load(); v&1 == 0 && (v == 0 || g.state.CompareAndSwap(v, 0)) {
			return v >> 1
		}
		if looks%gateLooks == 0 {
			Rest(gateSleep)
		}
	}
}

const (
	gateLooks = 1000                 // some microseconds: many times what a goroutine inside takes
	gateSleep = 5 * time.Microsecond // the least: the kernel makes some 60 of it
)

// Rest is how shut sleeps. Tests under testing/synctest set it: their clock stands still while a goroutine
// waits for a mutex, as others do for the one that shut's caller holds.
var Rest = time.Sleep
