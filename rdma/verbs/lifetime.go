//go:build rdma && linux && cgo

package verbs

import (
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// life is the state of an object, open or closed, and the number of its users. An object can be closed only without
// users, and has no new ones afterwards: a user may pass its C object to C.
type life struct {
	kind string // kind of the object, for errors

	mu     sync.RWMutex
	closed bool // under mu
	users  int  // under mu
}

// hold adds a user until release. It fails if the object is closed.
func (l *life) hold(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return rdma.ClosedError(op, l.kind)
	}
	l.users++
	return nil
}

// release removes a user, and reports whether it was the last.
func (l *life) release() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	return l.users == 0
}

// enter begins a short call during which the object must not be closed, until leave. Such calls must not be nested.
func (l *life) enter(op string) error {
	l.mu.RLock()
	if l.closed {
		l.mu.RUnlock()
		return rdma.ClosedError(op, l.kind)
	}
	return nil
}

func (l *life) leave() { l.mu.RUnlock() }

// end closes the object. Error EBUSY: it has users.
func (l *life) end(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return rdma.ClosedError(op, l.kind)
	}
	if l.users > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "%d objects use the %s", l.users, l.kind)
	}
	l.closed = true
	return nil
}

// reopen reverses end, if C did not destroy the object.
func (l *life) reopen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = false
}
