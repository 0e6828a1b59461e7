//go:build rdma && linux && cgo

package verbs

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// batch is the number of work requests or completions that cross to C at once.
const batch = 64

// cq is a completion queue.
type cq struct {
	dev     *device
	c       cverbs.CQ
	channel *compChannel // nil: polled only
	context any
	handle  uint64
	used    atomic.Int64 // by queue pairs
	overrun atomic.Bool  // the device said so

	mu     sync.Mutex
	wcs    []cverbs.WC // C memory, under mu
	closed bool        // under mu
}

// CreateCQ makes a completion queue.
func (d *device) CreateCQ(entries int, ch rdma.CompChannel, context any) (rdma.CQ, error) {
	const op = "create CQ"
	q := &cq{dev: d, context: context}
	var channel cverbs.CompChannel
	if ch != nil {
		c, ok := ch.(*compChannel)
		if !ok || c == nil || c.dev.ctx != d.ctx {
			return nil, rdma.Errorf(op, syscall.EINVAL, "completion channel of another device")
		}
		if c.isClosed() {
			return nil, rdma.ClosedError(op, "completion channel")
		}
		q.channel, channel = c, c.c
	}
	if entries < 1 || entries > 1<<30 {
		return nil, rdma.Errorf(op, syscall.EINVAL, "%d entries", entries)
	}
	if err := d.hold(op); err != nil {
		return nil, err
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
		d.release()
		return nil, rdma.Errorf(op, errno, "%d entries", entries)
	}
	if q.channel != nil {
		q.channel.used.Add(1)
	}
	return q, nil
}

func (q *cq) Entries() int { return q.c.Entries() }
func (q *cq) Context() any { return q.context }

// Poll moves completions to out. An error means that there will be none any
// more: the queue overflowed, or the device is gone.
func (q *cq) Poll(out []rdma.WorkCompletion) (int, error) {
	const op = "poll CQ"
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, rdma.ClosedError(op, "completion queue")
	}
	n := 0
	for n < len(out) {
		want := min(len(out)-n, len(q.wcs))
		k := q.c.Poll(q.wcs[:want])
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
			return 0, rdma.Errorf(op, syscall.EIO, "completion queue of %d entries overflowed", q.c.Entries())
		case q.dev.removed.Load():
			return 0, rdma.Errorf(op, syscall.EIO, "device %s is gone", q.dev.name)
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
		return rdma.Errorf(op, syscall.EINVAL, "completion queue has no channel")
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
	if n := q.used.Load(); n > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "%d queue pairs use it", n)
	}
	if errno := q.c.Destroy(); errno != 0 && !q.dev.gone(errno) {
		return check(op, errno)
	}
	q.closed = true
	allCQs.remove(q.handle)
	cverbs.FreeWCs(q.wcs)
	q.wcs = nil
	if q.channel != nil {
		q.channel.used.Add(-1)
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
