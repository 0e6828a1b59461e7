//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// compChannel is a channel of completion notifications.
type compChannel struct {
	source
	dev  *device
	c    cverbs.CompChannel
	w    *watch
	used atomic.Int64 // by completion queues

	mu   sync.Mutex // of Close, against retrieving
	shut bool       // under mu
}

// NewCompChannel opens a completion channel.
func (d *device) NewCompChannel() (rdma.CompChannel, error) {
	const op = "create completion channel"
	if err := d.hold(op); err != nil {
		return nil, err
	}
	c, errno := d.ctx.NewCompChannel()
	if errno != 0 {
		d.release()
		return nil, check(op, errno)
	}
	ch := &compChannel{source: newSource(), dev: d, c: c}
	w, err := newWatch(op, c.FD(), ch.readable)
	if err != nil {
		c.Destroy()
		d.release()
		return nil, err
	}
	ch.w = w
	return ch, nil
}

// TryWait returns the next notified queue. A queue that was closed after its
// notification is passed over.
func (ch *compChannel) TryWait() (rdma.CQ, error) {
	const op = "wait for completion"
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.shut {
		return nil, rdma.ClosedError(op, "completion channel")
	}
	for ch.edge.Load() {
		ch.edge.Store(false) // before the look: what comes later sets it again
		n, errno := ch.c.Next()
		if errno == syscall.EAGAIN {
			break
		}
		if errno != 0 {
			return nil, check(op, errno)
		}
		ch.readable() // there may be more
		if q := allCQs.get(n); q != nil {
			return q, nil
		}
	}
	return nil, rdma.ErrNoEvent
}

// Wait waits for it.
func (ch *compChannel) Wait(ctx context.Context) (rdma.CQ, error) {
	return await(ctx, &ch.source, ch.TryWait)
}

// Ready receives a value when TryWait may have something.
func (ch *compChannel) Ready() <-chan struct{} { return ch.ready }

// Close closes the channel.
func (ch *compChannel) Close() error {
	const op = "destroy completion channel"
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if n := ch.used.Load(); n > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "%d completion queues use it", n)
	}
	if ch.shut {
		return rdma.ClosedError(op, "completion channel")
	}
	ch.w.stop()
	ch.c.Destroy() // fails only if a queue uses it
	ch.shut = true
	close(ch.closed)
	ch.dev.release()
	return nil
}
