package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Handlers that run beside the loop, each in a goroutine of its own, which reads its
// subscription as a user does.

// Beside calls a function with what a subscription delivers, in a goroutine that ends
// with the subscription.
type Beside struct {
	goroutine atomic.Uint64
	done      chan struct{}
}

// besides are those of a loop that run.
type besides struct {
	mu  sync.Mutex
	all map[*Beside]bool // under mu
}

// Beside starts to call f with what the subscription delivers, and at last with why it
// has ended, if it was not closed. Nobody else reads it.
func (s *Subscription) Beside(f func(*Delivery)) *Beside {
	b := &Beside{done: make(chan struct{})}
	s.l.besides.add(b)
	go func() {
		defer close(b.done)
		defer s.l.besides.remove(b)
		b.goroutine.Store(goroutineID())
		var d Delivery
		for {
			err := s.Next(context.Background(), &d)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				d = Delivery{Err: err}
			}
			f(&d)
			if err != nil {
				return
			}
		}
	}()
	return b
}

// Wait waits until the goroutine has ended, which is when its subscription has and f has
// returned. It gives up lastWait after the end of ctx. A nil *Beside has ended.
func (b *Beside) Wait(ctx context.Context) error {
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
	}
	last := time.NewTimer(lastWait)
	defer last.Stop()
	select {
	case <-b.done:
		return nil
	case <-last.C:
		return fmt.Errorf("%w: %w", ErrStuck, contextError(ctx))
	}
}

func (x *besides) add(b *Beside) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = make(map[*Beside]bool)
	}
	x.all[b] = true
}

func (x *besides) remove(b *Beside) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, b)
}

// within reports whether the caller is in one of them.
func (x *besides) within() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.all) == 0 {
		return false
	}
	id := goroutineID()
	for b := range x.all {
		if id != 0 && b.goroutine.Load() == id {
			return true
		}
	}
	return false
}
