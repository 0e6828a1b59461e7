package roce

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// Received datagrams are noticed in three ways:
//
//   - poll: CQ.Poll receives when the queue is empty;
//   - a waiter: the goroutine that polls blocks in epoll_wait itself;
//   - an armed completion queue: while there is one, the device's watch
//     goroutine blocks in epoll_wait, and receives.
//
// All use the device's level-triggered epoll descriptor with all sockets.

var _ rdma.Pollable = (*waiter)(nil)

// waiter implements rdma.Waiter.
type waiter struct {
	*sys.Waiter
	d      *device
	closed atomic.Bool
}

// NewWaiter implements soft.Backend.
func (d *device) NewWaiter() (rdma.Waiter, error) {
	const op = "create waiter"
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.start(); err != nil {
		return nil, err
	}
	w, err := sys.NewWaiter()
	if err != nil {
		return nil, failed(op, err)
	}
	if err = w.Poller.AddPoller(d.sockets.watched, 0); err != nil {
		w.Close()
		return nil, failed(op, err)
	}
	made := &waiter{Waiter: w, d: d}
	d.waiters[made] = struct{}{}
	return made, nil
}

func (w *waiter) Wait(timeout time.Duration) error {
	if w.closed.Load() {
		return rdma.ClosedError("wait", "waiter")
	}
	woken := w.Begin()
	defer w.End()
	if !woken && timeout != 0 {
		w.Sleep(timeout)
	}
	return nil
}

func (w *waiter) Begin() (woken bool) {
	w.d.parked.Add(1)
	return w.Waiter.Begin() || w.d.gone.Load()
}

func (w *waiter) End() {
	w.Waiter.End()
	w.d.parked.Add(-1)
}

func (w *waiter) Descriptor() int { return w.Poller.Descriptor() }

func (w *waiter) WaitFor(descriptor int) error { return w.Poller.Add(descriptor, 0, unix.EPOLLIN) }

func (w *waiter) Close() error {
	if w.closed.Swap(true) {
		return rdma.ClosedError("close waiter", "waiter")
	}
	w.d.mu.Lock()
	delete(w.d.waiters, w)
	w.d.mu.Unlock()
	w.Waiter.Close()
	return nil
}

// wake ends all waits.
func (d *device) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiters {
		w.Wake()
	}
}
