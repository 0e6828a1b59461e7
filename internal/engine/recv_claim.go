package engine

import "sync/atomic"

// readerClaim is held by the goroutine that may use a subscription's readers: one that is in Next, or
// one that has borrowed them for a moment. A closed subscription stays claimed permanently.
type readerClaim struct {
	taken    atomic.Uint64 // 1: a goroutine has it
	borrowed atomic.Int32  // goroutines that have borrowed the readers, or try
}

// Take takes the claim. It reports false where another goroutine has it.
func (c *readerClaim) Take() bool { return c.taken.CompareAndSwap(0, 1) }

// Leave ends what Take began.
func (c *readerClaim) Leave() { storeRelease(&c.taken, 0) }

// borrow takes the claim so that other readers wait for it and are not refused.
func (c *readerClaim) borrow() bool {
	c.borrowed.Add(1)
	if c.Take() {
		return true
	}
	c.borrowed.Add(-1)
	return false
}

// giveBack ends what borrow began.
func (c *readerClaim) giveBack() {
	c.Leave()
	c.borrowed.Add(-1)
}

// read takes the readers as soon as no goroutine has borrowed them. It reports false when another one reads.
func (c *readerClaim) read() bool {
	for !c.Take() {
		if c.borrowed.Load() == 0 {
			return c.Take()
		}
		yield()
	}
	return true
}
