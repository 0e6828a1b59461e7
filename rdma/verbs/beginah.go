//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"sync"

	"github.com/fanfaremq/fanfare/rdma"
)

// maxMakers bounds the number of address handles of a device that are made concurrently: each may block a thread while
// the kernel resolves a neighbour. With a limit of 1, an unreachable host would delay all others.
const maxMakers = 4

// pendingAH is an address handle that is being made; rdma.PendingAH.
type pendingAH struct {
	domain interface{ release() bool } // released when there is a handle, which holds it itself
	create func() (rdma.AH, error)
	done   func()
	over   pending // done when nothing is in progress any more

	mu       sync.Mutex
	begun    bool    // under mu
	unwanted bool    // under mu
	ah       rdma.AH // under mu; nil: it is not made, or was returned or closed
	err      error   // under mu
}

// BeginCreateAH makes an address handle without blocking the caller.
func (p *pd) BeginCreateAH(attr rdma.AHAttr, done func()) (rdma.PendingAH, error) {
	if err := p.hold("create AH"); err != nil {
		return nil, err
	}
	a := newPendingAH(p, func() (rdma.AH, error) { return p.makeAH(attr) }, done)
	p.dev.handles.begin(a.run)
	return a, nil
}

func newPendingAH(domain interface{ release() bool }, create func() (rdma.AH, error), done func()) *pendingAH {
	return &pendingAH{domain: domain, create: create, done: done, over: make(pending)}
}

// run makes the handle in a worker.
func (a *pendingAH) run() {
	a.mu.Lock()
	if a.unwanted { // Cancel has ended it
		a.mu.Unlock()
		return
	}
	a.begun = true
	a.mu.Unlock()
	ah, err := a.create()
	a.mu.Lock()
	switch {
	case err != nil:
		a.err = err
		a.domain.release()
	case a.unwanted:
		_ = ah.Close() // no caller is left to return it to
	default:
		a.ah = ah
	}
	close(a.over)
	a.mu.Unlock()
	if a.done != nil {
		a.done()
	}
}

func (a *pendingAH) Done() bool { return a.over.Done() }

func (a *pendingAH) Wait(ctx context.Context) error {
	if err := a.over.Wait(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// AH returns the handle, once.
func (a *pendingAH) AH() (rdma.AH, error) {
	const op = "create AH"
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.unwanted:
		return nil, rdma.ClosedError(op, "pending address handle")
	case !a.over.Done():
		return nil, rdma.ErrNoEvent
	case a.err != nil:
		return nil, a.err
	}
	ah := a.ah
	a.ah, a.unwanted = nil, true
	return ah, nil
}

// Cancel cancels the creation.
func (a *pendingAH) Cancel() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unwanted {
		return
	}
	a.unwanted = true
	switch {
	case a.ah != nil:
		_ = a.ah.Close() // no caller is left to return it to
		a.ah = nil
	case !a.begun:
		a.domain.release()
		close(a.over)
	}
}
