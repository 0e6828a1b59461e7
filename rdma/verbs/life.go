//go:build rdma && linux && cgo

package verbs

import (
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// life says whether an object is open, and counts what uses it. It closes only when nothing does, and nothing begins to
// use it afterwards: whatever holds it may hand its C object to C.
type life struct {
	kind string // of the object, for errors

	mu     sync.RWMutex
	closed bool // under mu
	users  int  // under mu
}

// hold counts a user more, until release. It fails when the object is closed.
func (l *life) hold(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return rdma.ClosedError(op, l.kind)
	}
	l.users++
	return nil
}

// release counts a user less, and reports whether it was the last.
func (l *life) release() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	return l.users == 0
}

// enter begins a short call that must not overlap with Close: the object is not closed until leave. Calls do not nest.
func (l *life) enter(op string) error {
	l.mu.RLock()
	if l.closed {
		l.mu.RUnlock()
		return rdma.ClosedError(op, l.kind)
	}
	return nil
}

func (l *life) leave() { l.mu.RUnlock() }

// end closes the object. EBUSY: it has users.
func (l *life) end(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return rdma.ClosedError(op, l.kind)
	}
	if l.users > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "%d objects are left that use the %s", l.users, l.kind)
	}
	l.closed = true
	return nil
}

// reopen takes an end back: C did not destroy the object.
func (l *life) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = false
}
