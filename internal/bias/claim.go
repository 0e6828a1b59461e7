package bias

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/gid"
)

// Claim is a lock that nobody waits for: who finds it taken does something else. It is taken for long (Take), and in between,
// mostly by the same goroutine, for a few instructions (Enter). Where one goroutine alone does that for long, its Enter takes no
// locked instruction, behind which a processor reads nothing ahead. The zero value is free.
type Claim struct {
	flag Flag                   // whether it is taken; not while the goroutine whose it is has entered
	one  atomic.Pointer[single] // whose it is; nil: everybody's

	// With flag taken:
	tenure
	entered uint64 // Enters since Used was told last
}

// Enter is a Take for a few instructions, which Exit ends. It reports false also where it is another goroutine's, and free.
func (c *Claim) Enter() bool {
	if x := c.one.Load(); x != nil {
		return x.goroutine == gid.Self() && x.Enter()
	}
	if !c.flag.Take() {
		return false
	}
	if c.one.Load() != nil { // since
		c.flag.Leave()
		return false
	}
	c.entered++
	return true
}

// Exit ends what Enter began. Whose the claim is does not change meanwhile.
func (c *Claim) Exit() {
	if x := c.one.Load(); x != nil {
		x.Exit()
		return
	}
	c.flag.Leave()
}

// Take takes the claim. It reports false when somebody has it.
func (c *Claim) Take() bool {
	if !c.flag.Take() {
		return false
	}
	if x := c.one.Load(); x != nil && x.goroutine != gid.Self() && !x.Revoke() {
		c.Leave()
		return false
	}
	return true
}

// Leave ends what Take began.
func (c *Claim) Leave() {
	if x := c.one.Load(); x != nil {
		x.Restore()
	}
	c.flag.Leave()
}

// Used notes that the calling goroutine, which has taken the claim, is one that enters, and decides whose it is.
func (c *Claim) Used() {
	me := gid.Self()
	switch c.used(me, c.entered, c.one.Load() != nil) {
	case toMe:
		c.one.Store(&single{goroutine: me})
	case toAll:
		c.one.Store(nil) // the lock that was there stays revoked
	}
	c.entered = 0
}
