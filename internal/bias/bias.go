// Package bias has the locks of those who publish: they are taken for a few
// nanoseconds, for each message.
//
// Lock nearly always belongs to one goroutine. Its owner enters and leaves it without a locked instruction, which costs more
// than writing a small message. Anybody else pays for that: a revocation makes
// the kernel run a memory barrier on all threads of the process, some
// microseconds, and may find the owner inside and have to come back.
//
// It is Dekker's algorithm with an unequal fence: the owner writes inside and
// then reads revoked; the other writes revoked, makes every thread pass a
// barrier (membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED), and then reads
// inside. Where there is no such barrier, or stores are no dearer when they are
// ordered (arm64), the owner's are atomic. Under the race detector they are,
// too: it does not know the barrier.
package bias

import "sync/atomic"

// Lock is a biased lock. The zero value belongs to its owner. Everybody but the
// owner, and whoever calls Restore or Withdraw, holds a mutex that all of them share.
type Lock struct {
	inside  uint32 // the owner's: 1 while it is between Enter and Exit
	revoked atomic.Uint32
}

// Revoke takes the lock from its owner. It reports whether it belongs to the
// caller now, until the owner's Restore; while the owner is inside it does not,
// and the caller comes back later: the owner does not enter again.
func (l *Lock) Revoke() bool {
	if l.revoked.Load() == 0 {
		l.revoked.Store(1)
		barrier()
	}
	return atomic.LoadUint32(&l.inside) == 0
}

// Withdraw is Revoke by the owner, who is outside: no other thread has to be asked.
func (l *Lock) Withdraw() { l.revoked.Store(1) }

// Restore gives the lock back to its owner.
func (l *Lock) Restore() {
	if l.revoked.Load() != 0 {
		l.revoked.Store(0)
	}
}
