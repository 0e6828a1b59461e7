package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/gid"
	"github.com/fanfaremq/fanfare/internal/report"
)

// Goroutines beside the loop, for handlers that may take long and for conflation. Each reads its subscription as a user
// does.

// Worker is such a goroutine. It ends with its subscription.
type Worker struct {
	l         *Loop
	goroutine atomic.Uint64
	done      chan struct{}
}

// workers are the running ones of a bus.
type workers struct {
	mu  sync.Mutex
	all map[*Worker]bool // under mu
}

// work runs f. It defers exited, because f may call user code that ends the goroutine.
func (l *Loop) work(f, exited func()) *Worker {
	b := &Worker{l: l, done: make(chan struct{})}
	l.workers.add(b)
	l.spawn(func() {
		defer close(b.done)
		defer l.workers.remove(b)
		defer exited()
		b.goroutine.Store(gid.Self())
		f()
	})
	return b
}

// StartWorker starts to call f with each delivery of the subscription, and finally with the error that ended it, unless
// it was closed. The subscription must have no other reader.
func (s *Subscription) StartWorker(f func(*Delivery)) *Worker {
	return s.l.work(func() { s.call(s.Next, f) }, s.handlerExited)
}

// StartWorker is Subscription.StartWorker for the newest messages.
func (c *Conflation) StartWorker(f func(*Delivery)) *Worker {
	return c.s.l.work(func() { c.s.call(c.Next, f) }, c.s.handlerExited)
}

// call calls f with each delivery that next returns, until the end.
func (s *Subscription) call(next func(context.Context, *Delivery) error, f func(*Delivery)) {
	var d Delivery
	watch := s.watchBeside(&report.HandlerBesideSlow, "")
	defer watch.stop()
	for {
		err := next(context.Background(), &d)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			d = Delivery{Err: err}
		}
		watch.begin()
		f(&d)
		watch.end()
		if err != nil {
			return
		}
	}
}

// Wait waits until the goroutine has ended: its subscription has ended, and f has returned. It gives up lastWait after
// the end of ctx. A nil *Worker has ended.
func (b *Worker) Wait(ctx context.Context) error {
	if b == nil {
		return nil
	}
	if b.l.endsBy(ctx, b.done) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrStuck, contextError(ctx))
}

func (x *workers) add(b *Worker) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = make(map[*Worker]bool)
	}
	x.all[b] = true
}

func (x *workers) remove(b *Worker) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, b)
}

// within reports whether the caller is a running worker.
func (x *workers) within() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.all) == 0 {
		return false
	}
	id := gid.Self()
	for b := range x.all {
		if b.goroutine.Load() == id {
			return true
		}
	}
	return false
}
