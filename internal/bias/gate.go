package bias

import (
	"runtime"
	"sync/atomic"
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
func (g *Gate) Shut() {
	for atomic.LoadUint32(&g.state) != gateShut && !atomic.CompareAndSwapUint32(&g.state, gateOpen, gateShut) {
		runtime.Gosched() // the goroutine inside is about to leave, unless it was preempted
	}
}

// Open opens a gate that is shut. Its caller holds the mutex.
func (g *Gate) Open() { atomic.StoreUint32(&g.state, gateOpen) }
