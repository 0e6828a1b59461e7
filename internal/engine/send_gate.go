package engine

import (
	"sync/atomic"
	"time"
)

// gate lets one goroutine at a time append to the open packet without the publication's lock, for a granted number of
// messages. The next message takes the lock and reads the clock. The zero value is shut. docs/decisions/11-gate.md.
type gate struct {
	state atomic.Uint64 // twice the number of messages that may still enter, plus 1 while a goroutine is inside
}

// enter enters the gate. It returns how many may still enter, the caller included; 0: the gate is shut or taken.
func (g *gate) enter() uint64 {
	v := g.state.Load()
	if v&1 == 0 && v != 0 && g.state.CompareAndSwap(v, v|1) {
		return v >> 1
	}
	return 0
}

// leave leaves the gate, which left more messages may enter.
func (g *gate) leave(left uint64) { storeRelease(&g.state, left<<1) }

// left returns how many may still enter, the goroutine inside included.
func (g *gate) left() uint64 { return g.state.Load() >> 1 }

// open lets n messages enter a gate that is shut. The caller holds the publication's lock.
func (g *gate) open(n uint64) { g.state.Store(n << 1) }

// shut waits until no goroutine is inside, and shuts the gate. It returns how many could still enter. Under mu.
//
// A goroutine inside leaves after copying a message, unless the kernel or the scheduler has taken its processor away.
// Then polling, or yielding to goroutines that soon want this gate as well, would keep the processor from it. So the
// caller sleeps.
func (g *gate) shut() uint64 {
	for looks := 1; ; looks++ {
		// While the gate is taken nothing is written to its cache line, which the goroutine inside needs.
		if v := g.state.Load(); v&1 == 0 && (v == 0 || g.state.CompareAndSwap(v, 0)) {
			return v >> 1
		}
		if looks%gateLooks == 0 {
			Rest(gateSleep)
		}
	}
}

const (
	gateLooks = 1000                 // some microseconds: far longer than a goroutine stays inside
	gateSleep = 5 * time.Microsecond // as short as possible: the kernel makes some 60 µs of it
)

// Rest is how shut sleeps. Tests under testing/synctest replace it: their clock stands still while a goroutine waits
// for a mutex, such as the one that shut's caller holds.
var Rest = time.Sleep
