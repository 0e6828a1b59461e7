//go:build !linux || !amd64 || race

package bias

import "sync/atomic"

// Enter reports whether the owner is inside: if not, the lock was revoked.
func (l *Lock) Enter() bool {
	atomic.StoreUint32(&l.inside, 1)
	if l.revoked.Load() == 0 {
		return true
	}
	atomic.StoreUint32(&l.inside, 0)
	return false
}

// Exit leaves the lock after an Enter that succeeded.
func (l *Lock) Exit() { atomic.StoreUint32(&l.inside, 0) }

// biases says that a gate of one goroutine costs less than everybody's: an owner's stores are as dear here. Tests set it.
var biases = false

// store makes what was stored before visible first.
func store(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

func store64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// barrier has nothing to do: the owner's accesses are ordered.
func barrier() {}
