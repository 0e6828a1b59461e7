package engine

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/bias"
)

// readerClaim says which goroutine may use a subscription's readers: one that is in Next, or
// one that has borrowed them for a moment. A closed subscription stays claimed for good.
type readerClaim struct {
	bias.Claim
	borrowed atomic.Int32 // goroutines that have borrowed the readers, or try
}

// borrow is a claim that others wait for, rather than to be refused.
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

// read takes the readers as soon as nobody has borrowed them. It reports false when somebody
// else reads.
func (c *readerClaim) read() bool {
	for !c.Take() {
		if c.borrowed.Load() == 0 {
			if !c.Take() {
				return false
			}
			break
		}
		yield()
	}
	c.Used()
	return true
}
