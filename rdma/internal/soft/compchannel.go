package soft

import (
	"context"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// CompChannel is a channel of completion notifications. A Backend that receives only when it is polled must implement
// Arm for them.
type CompChannel struct {
	on   *handle
	box  *mailbox[*CQ]
	used atomic.Int64 // number of completion queues that use it
}

func (h *handle) NewCompChannel() (rdma.CompChannel, error) {
	if err := h.usable("create completion channel"); err != nil {
		return nil, err
	}
	h.objects.Add(1)
	return &CompChannel{on: h, box: newMailbox[*CQ]("completion channel", 0)}, nil
}

// TryWait returns the next notified queue.
func (c *CompChannel) TryWait() (rdma.CQ, error) {
	cq, err := c.box.pop("wait for completion")
	if err != nil {
		return nil, err // not cq: a nil *CQ is not a nil rdma.CQ
	}
	return cq, nil
}

// Wait waits for the next notified queue.
func (c *CompChannel) Wait(ctx context.Context) (rdma.CQ, error) {
	return await(ctx, c.box, c.TryWait)
}

// Ready receives a value when TryWait may return a queue.
func (c *CompChannel) Ready() <-chan struct{} { return c.box.ready }

// Close closes the channel.
func (c *CompChannel) Close() error {
	const op = "destroy completion channel"
	if n := c.used.Load(); n > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "%d completion queues use it", n)
	}
	if !c.box.close() {
		return rdma.ClosedError(op, "completion channel")
	}
	c.on.objects.Add(-1)
	return nil
}
