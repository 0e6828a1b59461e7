package ud

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// waiter is how the loop sleeps: in the provider's waiter, if it has one; otherwise on the channels of completions and
// events, with armed completion queues.
type waiter struct {
	token chan struct{} // sent by wake
	timer *time.Timer   // loop only

	mu  sync.Mutex
	own rdma.Waiter // nil: the provider has none. Under mu for wake and for closing
}

// open checks whether the device has waiters.
func (w *waiter) open(dev rdma.Device) error {
	d, ok := dev.(rdma.Waiting)
	if !ok {
		return nil
	}
	own, err := d.NewWaiter()
	if errors.Is(err, rdma.ErrNotSupported) {
		return nil
	}
	w.own = own
	return err
}

func (w *waiter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.own
	if w.own = nil; own == nil {
		return nil
	}
	return own.Close()
}

// pollable is the provider's waiter, if it has a descriptor to wait on; else nil.
func (w *waiter) pollable() rdma.Pollable {
	p, _ := w.own.(rdma.Pollable)
	return p
}

// wake makes the current or the next wait return. Any goroutine may call it.
func (w *waiter) wake() {
	select {
	case w.token <- struct{}{}:
	default: // a token is there already
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.own != nil {
		w.own.Wake()
	}
}

// start starts the timer.
func (w *waiter) start(timeout time.Duration) <-chan time.Time {
	if w.timer == nil {
		w.timer = time.NewTimer(timeout)
	} else {
		w.timer.Reset(timeout)
	}
	return w.timer.C
}
