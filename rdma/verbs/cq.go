//go:build rdma && linux && cgo

package verbs

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// batch is the number of work requests or completions of one call of C.
const batch = 64

// cq is a completion queue.
type cq struct {
	dev     *device
	c       cverbs.CQ
	channel *compChannel // nil: the queue can only be polled
	context any
	handle  uint64
	entries int
	overrun atomic.Bool // reported by the device

	mu     sync.Mutex
	wcs    []cverbs.WC // C memory, under mu
	closed bool        // under mu
	used   int         // number of queue pairs; under mu
}

// hold counts a queue pair that uses the queue, until release.
func (q *cq) hold(op string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return rdma.ClosedError(op, "completion queue")
	}
	q.used++
	return nil
}

func (q *cq) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used--
}

// CreateCQ makes a completion queue.
func (d *device) CreateCQ(entries int, ch rdma.CompChannel, context any) (rdma.CQ, error) {
	const op = "create CQ"
	q := &cq{dev: d, context: context}
	var channel cverbs.CompChannel
	if ch != nil {
		c, ok := ch.(*compChannel)
		if !ok || c == nil || c.dev.ctx != d.ctx {
			return nil, rdma.Errorf(op, syscall.EINVAL, "the completion channel is one of another device")
		}
		q.channel, channel = c, c.c
	}
	if entries < 1 || entries > 1<<30 {
		return nil, rdma.Errorf(op, syscall.EINVAL, "%d entries", entries)
	}
	if err := d.hold(op); err != nil {
		return nil, err
	}
	if q.channel != nil {
		if err := q.channel.hold(op); err != nil {
			d.release()
			return nil, err
		}
	}
	q.handle = allCQs.add(q)
	var errno syscall.Errno
	if q.wcs = cverbs.NewWCs(min(batch, entries)); q.wcs == nil {
		errno = syscall.ENOMEM
	} else {
		q.c, errno = d.ctx.CreateCQ(entries, q.handle, channel)
	}
	if errno != 0 {
		cverbs.FreeWCs(q.wcs)
		allCQs.remove(q.handle)
		if q.channel != nil {
			q.channel.release()
		}
		d.release()
		return nil, rdma.Errorf(op, errno, "%d entries", entries)
	}
	q.entries = q.c.Entries()
	return q, nil
}

func (q *cq) Entries() int { return q.entries }
func (q *cq) Context() any { return q.context }

// Poll moves completions to out. An error means that no more will follow: the queue overflowed, or the device was
// removed.
func (q *cq) Poll(out []rdma.WorkCompletion) (int, error) { return q.PollFor(out, 0) }

// maxSpin bounds one spin, during which its thread runs no other goroutine, so that the garbage collector's goroutines
// wait for a processor.
const maxSpin = 50 * time.Microsecond

// PollFor repeats Poll, in one call of C, until there is a completion or limit has passed.
func (q *cq) PollFor(out []rdma.WorkCompletion, limit time.Duration) (int, error) {
	const op = "poll CQ"
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, rdma.ClosedError(op, "completion queue")
	}
	n := 0
	for n < len(out) {
		want := min(len(out)-n, len(q.wcs))
		var k int
		if n == 0 && limit > 0 {
			k = q.c.PollFor(q.wcs[:want], int64(min(limit, maxSpin)))
		} else {
			k = q.c.Poll(q.wcs[:want])
		}
		if k < 0 {
			return n, rdma.Errorf(op, syscall.EIO, "the device failed")
		}
		for i := range q.wcs[:k] {
			goWC(&q.wcs[i], &out[n+i])
		}
		if n += k; k < want {
			break
		}
	}
	if n == 0 && len(out) > 0 {
		switch {
		case q.overrun.Load():
			return 0, rdma.Errorf(op, syscall.EIO, "the completion queue of %d entries overflowed", q.entries)
		case q.dev.removed.Load():
			return 0, rdma.Errorf(op, syscall.EIO, "the device %s was removed", q.dev.name)
		}
	}
	return n, nil
}

// RequestNotify arms the queue.
func (q *cq) RequestNotify(solicited bool) error {
	const op = "request notification"
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return rdma.ClosedError(op, "completion queue")
	}
	if q.channel == nil {
		return rdma.Errorf(op, syscall.EINVAL, "the completion queue has no channel")
	}
	return check(op, q.c.RequestNotify(solicited))
}

// Close destroys the queue.
func (q *cq) Close() error {
	const op = "destroy CQ"
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return rdma.ClosedError(op, "completion queue")
	}
	if q.used > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "%d queue pairs use it", q.used)
	}
	if errno := q.c.Destroy(); errno != 0 && !q.dev.gone(errno) {
		return check(op, errno)
	}
	q.closed = true
	allCQs.remove(q.handle)
	cverbs.FreeWCs(q.wcs)
	q.wcs = nil
	if q.channel != nil {
		q.channel.release()
	}
	q.dev.release()
	return nil
}

func goWC(c *cverbs.WC, wc *rdma.WorkCompletion) {
	*wc = rdma.WorkCompletion{
		WRID: c.WRID, Status: rdma.WCStatus(c.Status), Opcode: rdma.WCOpcode(c.Opcode), Flags: rdma.WCFlags(c.Flags),
		VendorErr: c.VendorErr, ByteLen: c.ByteLen, Imm: c.Imm, QPN: rdma.QPN(c.QPN), SrcQPN: rdma.QPN(c.SrcQPN),
		PKeyIndex: c.PKeyIndex, SLID: rdma.LID(c.SLID), SL: c.SL, DLIDPathBits: c.DLIDBits,
	}
}
