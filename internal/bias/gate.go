package bias

import (
	"sync/atomic"
	"time"
)

// Gate is a lock for a few instructions that many goroutines take in turns, if
// they find it open and free: taking it is one locked instruction, leaving it
// none where stores are ordered anyway. Who does not find it so goes another way,
// by a mutex; who holds that mutex can shut the gate. The zero value is shut.
type Gate struct{ state uint32 }

const (
	gateShut = iota
	gateOpen
	gateTaken
)

// Enter takes the gate. It reports false when it is shut or taken.
func (g *Gate) Enter() bool { return atomic.CompareAndSwapUint32(&g.state, gateOpen, gateTaken) }

// Exit leaves the gate after an Enter that succeeded.
func (g *Gate) Exit() { store(&g.state, gateOpen) }

// Shut waits until the gate is free and shuts it. Its caller holds the mutex.
//
// Who is inside leaves within nanoseconds, unless the kernel or the scheduler has taken its processor away. Then to look on, or
// to let other goroutines run, which soon want this gate as well, would keep from it what it needs: so the caller sleeps (docs/decisions, 80).
func (g *Gate) Shut() {
	for looks := 1; atomic.LoadUint32(&g.state) != gateShut && !atomic.CompareAndSwapUint32(&g.state, gateOpen, gateShut); looks++ {
		if looks%gateLooks == 0 {
			time.Sleep(gateSleep)
		}
	}
}

const (
	gateLooks = 1000                 // about a microsecond: many times what somebody inside takes
	gateSleep = 5 * time.Microsecond // the least: the kernel makes some 60 of it
)

// Open opens a gate that is shut. Its caller holds the mutex.
func (g *Gate) Open() { atomic.StoreUint32(&g.state, gateOpen) }
