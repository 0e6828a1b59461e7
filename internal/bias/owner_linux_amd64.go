//go:build linux && amd64 && !race

package bias

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Commands of membarrier(2).
const (
	privateExpedited         = 1 << 3
	registerPrivateExpedited = 1 << 4
)

// unfenced says that the kernel has the barrier, so that the owner needs none.
var unfenced = membarrier(registerPrivateExpedited)

// biases says that a gate of one goroutine costs less than everybody's. Tests set it.
var biases = unfenced

func membarrier(cmd uintptr) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_MEMBARRIER, cmd, 0, 0)
	return errno == 0
}

// Enter reports whether the owner is inside: if not, the lock was revoked.
//
// The plain store is one instruction, and amd64 keeps stores in their order.
// What it may do is to let the load of revoked overtake it, which the barrier
// of Revoke makes up for. The compiler keeps the order, because the load is
// atomic.
func (l *Lock) Enter() bool {
	if unfenced {
		l.inside = 1
	} else {
		atomic.StoreUint32(&l.inside, 1)
	}
	if l.revoked.Load() == 0 {
		return true
	}
	l.Exit()
	return false
}

// Exit leaves the lock after an Enter that succeeded. amd64 makes what was
// stored before visible before this store.
func (l *Lock) Exit() { l.inside = 0 }

// store makes what was stored before visible first: amd64 keeps stores in order.
func store(p *uint32, v uint32) { *p = v }

func store64(p *uint64, v uint64) { *p = v }

// barrier makes all threads of the process pass a full memory barrier.
func barrier() {
	if unfenced && !membarrier(privateExpedited) {
		// It worked when it was registered. Going on would let two in.
		panic("bias: the kernel refuses membarrier(2), which it has offered")
	}
}
