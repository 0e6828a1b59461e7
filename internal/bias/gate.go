package bias

import (
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/gid"
)

// Gate is a lock for a few instructions that many goroutines take in turns, if
// they find it open and free: taking it is one locked instruction, leaving it
// none where stores are ordered anyway. Who does not find it so goes another way,
// by a mutex; who holds that mutex can shut the gate. The zero value is shut.
//
// A gate that one goroutine alone goes through for long is that goroutine's: it takes it without a locked instruction, as a
// Lock. The first other one that comes makes it everybody's again.
//
//	         Used, by one goroutine for long
//	┌──────────┐ ─────────────────────────► ┌─────┐
//	│ everyone │                            │ one │
//	└──────────┘ ◄───────────────────────── └─────┘
//	         Used, by another one
type Gate struct {
	state uint32                 // whether it is open and taken, while it is everybody's; shut while it is one goroutine's
	one   atomic.Pointer[single] // whose it is; nil: everybody's

	tenure // under the mutex
}

const (
	gateShut = iota
	gateOpen
	gateTaken
)

// Enter takes the gate. It reports false when it is shut, taken, or another goroutine's.
func (g *Gate) Enter() bool {
	if x := g.one.Load(); x != nil {
		return x.goroutine == gid.Self() && x.Enter()
	}
	return atomic.CompareAndSwapUint32(&g.state, gateOpen, gateTaken)
}

// Exit leaves the gate after an Enter that succeeded. Whose it is does not change while somebody is inside.
func (g *Gate) Exit() {
	if x := g.one.Load(); x != nil {
		x.Exit()
		return
	}
	store(&g.state, gateOpen)
}

// Shut waits until the gate is free and shuts it. Its caller holds the mutex, and is not inside.
//
// Who is inside leaves when it has copied a message, unless the kernel or the scheduler has taken its processor away. Then to look on, or
// to let other goroutines run, which soon want this gate as well, would keep from it what it needs: so the caller sleeps (docs/decisions, 80).
func (g *Gate) Shut() {
	for looks := 1; !g.shut(); looks++ {
		if looks%gateLooks == 0 {
			Rest(gateSleep)
		}
	}
}

// Rest is how Shut sleeps. Tests under testing/synctest set it: their clock stands still while anybody
// waits for a mutex, as others do for the one that Shut's caller holds.
var Rest = time.Sleep

func (g *Gate) shut() bool {
	switch x := g.one.Load(); {
	case x == nil:
		switch atomic.LoadUint32(&g.state) {
		case gateShut:
			return true
		case gateOpen: // else nothing is written to its line, which who is inside needs
			return atomic.CompareAndSwapUint32(&g.state, gateOpen, gateShut)
		}
		return false
	case x.goroutine == gid.Self():
		x.Withdraw()
		return true
	default:
		return x.Revoke()
	}
}

const (
	gateLooks = 1000                 // some microseconds: many times what somebody inside takes
	gateSleep = 5 * time.Microsecond // the least: the kernel makes some 60 of it
)

// Open opens a gate that is shut. Its caller holds the mutex.
func (g *Gate) Open() {
	if x := g.one.Load(); x != nil {
		x.Restore()
		return
	}
	atomic.StoreUint32(&g.state, gateOpen)
}

// Used notes that the calling goroutine uses the gate, which was entered so many times since this was told last, and decides whose it is. The
// caller holds the mutex, and the gate is shut.
func (g *Gate) Used(times uint64) {
	me := gid.Self()
	switch g.used(me, times, g.one.Load() != nil) {
	case toMe:
		x := &single{goroutine: me}
		x.Withdraw()
		g.one.Store(x)
	case toAll:
		g.one.Store(nil)
	}
}
