//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// compChannel is a channel of completion notifications.
type compChannel struct {
	source
	dev *device
	c   cverbs.CompChannel
	w   *watch

	mu   sync.Mutex // excludes Close while a notification is retrieved
	shut bool       // under mu
	used int        // number of completion queues; under mu
}

// hold counts a completion queue that uses the channel, until release.
func (ch *compChannel) hold(op string) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.shut {
		return rdma.ClosedError(op, "completion channel")
	}
	ch.used++
	return nil
}

func (ch *compChannel) release() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.used--
}

// waitFailed is called when waiting for notifications fails, for example because the device was removed. From then on
// polling returns the error, too.
func (ch *compChannel) waitFailed(err *rdma.Error) {
	ch.dev.removed.Store(true)
	ch.fail(err)
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
	w, err := newWatch(op, c.FD(), ch.readable, ch.waitFailed)
	if err != nil {
		c.Destroy()
		d.release()
		return nil, err
	}
	ch.w = w
	return ch, nil
}

// TryWait returns the next notified queue. It skips queues that were closed after their notification.
func (ch *compChannel) TryWait() (rdma.CQ, error) {
	const op = "wait for completion"
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.shut {
		return nil, rdma.ClosedError(op, "completion channel")
	}
	for ch.edge.Load() || ch.fault.Load() != nil {
		ch.edge.Store(false) // before reading: a later event sets it again
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
	return nil, ch.empty()
}

// Wait waits for the next notified queue.
func (ch *compChannel) Wait(ctx context.Context) (rdma.CQ, error) {
	return await(ctx, &ch.source, ch.TryWait)
}

// Ready receives a value when TryWait may return a queue.
func (ch *compChannel) Ready() <-chan struct{} { return ch.ready }

// Close closes the channel.
func (ch *compChannel) Close() error {
	const op = "destroy completion channel"
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.used > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "%d completion queues use it", ch.used)
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
