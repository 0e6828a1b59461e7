package engine

import (
	"runtime"
	"sync/atomic"
)

// readerClaim is held by the goroutine that may use a subscription's readers: one in Next, or one that has borrowed
// them briefly. A closed subscription stays claimed permanently.
type readerClaim struct {
	taken    atomic.Uint64 // 1: claimed
	borrowed atomic.Int32  // goroutines that have borrowed the readers, or try to
}

// Take claims the readers. It returns false if another goroutine has them.
func (c *readerClaim) Take() bool { return c.taken.CompareAndSwap(0, 1) }

// Leave releases the readers.
func (c *readerClaim) Leave() { storeRelease(&c.taken, 0) }

// borrow claims the readers briefly: meanwhile read waits and does not fail.
func (c *readerClaim) borrow() bool {
	c.borrowed.Add(1)
	if c.Take() {
		return true
	}
	c.borrowed.Add(-1)
	return false
}

// giveBack ends a borrow.
func (c *readerClaim) giveBack() {
	c.Leave()
	c.borrowed.Add(-1)
}

// read claims the readers as soon as none has borrowed them. It returns false if another goroutine reads.
func (c *readerClaim) read() bool {
	for !c.Take() {
		if c.borrowed.Load() == 0 {
			return c.Take()
		}
		runtime.Gosched()
	}
	return true
}
