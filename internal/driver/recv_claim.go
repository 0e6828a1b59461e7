package driver

import "sync/atomic"

// readerClaim says which goroutine may use a subscription's readers: one that is in Next, or
// one that has borrowed them for a moment. A closed subscription stays claimed for good.
type readerClaim struct {
	taken    atomic.Bool
	borrowed atomic.Int32 // goroutines that have borrowed the readers, or try
}

// claim takes the readers, if nobody has them.
func (c *readerClaim) claim() bool { return c.taken.CompareAndSwap(false, true) }

// release ends a claim.
func (c *readerClaim) release() { c.taken.Store(false) }

// borrow is a claim that others wait for, rather than to be refused.
func (c *readerClaim) borrow() bool {
	c.borrowed.Add(1)
	if c.claim() {
		return true
	}
	c.borrowed.Add(-1)
	return false
}

// giveBack ends what borrow began.
func (c *readerClaim) giveBack() {
	c.release()
	c.borrowed.Add(-1)
}

// read takes the readers as soon as nobody has borrowed them. It reports false when somebody
// else reads.
func (c *readerClaim) read() bool {
	for !c.claim() {
		if c.borrowed.Load() == 0 {
			return c.claim()
		}
		yield()
	}
	return true
}
