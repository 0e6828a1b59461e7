package soft

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// CQ is a completion queue.
type CQ struct {
	on      *handle
	channel *CompChannel // nil: the queue can only be polled
	context any
	used    atomic.Int64 // number of queue pairs that use it
	// receives is the number of queue pairs that use it for receiving. Without any, polling the queue does not have to
	// receive.
	receives atomic.Int64

	mu        sync.Mutex
	ring      []completion
	head      int // the oldest
	count     int
	armed     arming
	counted   bool // in Device.armed
	overrun   bool
	failedQPs bool // its queue pairs are in state ERR because of overrun, or soon will be
	isClosed  bool
}

// completion is an entry of the queue. Polling the completion of a send frees the places of sends up to number upTo.
type completion struct {
	wc        rdma.WorkCompletion
	solicited bool
	sent      *sendQueue
	upTo      uint64
}

type arming uint8

const (
	notArmed arming = iota
	armedSolicited
	armedAny
)

func (h *handle) CreateCQ(entries int, ch rdma.CompChannel, context any) (rdma.CQ, error) {
	const op = "create CQ"
	if err := h.usable(op); err != nil {
		return nil, err
	}
	attr := &h.dev.cfg.Attr
	if entries < 1 || entries > attr.MaxCQE {
		return nil, rdma.Errorf(op, syscall.EINVAL, "%d entries: the number must be from 1 to %d", entries, attr.MaxCQE)
	}
	cq := &CQ{on: h, context: context}
	if ch != nil {
		c, ok := ch.(*CompChannel)
		if !ok || c == nil || c.on.dev != h.dev {
			return nil, rdma.Errorf(op, syscall.EINVAL, "the completion channel is one of another device")
		}
		if c.box.isClosed() {
			return nil, rdma.ClosedError(op, "completion channel")
		}
		cq.channel = c
	}
	if !acquire(&h.dev.cqs, attr.MaxCQ) {
		return nil, rdma.Errorf(op, syscall.ENOMEM, "the device's limit of %d completion queues is reached", attr.MaxCQ)
	}
	if cq.channel != nil {
		cq.channel.used.Add(1)
	}
	cq.ring = make([]completion, entries)
	h.objects.Add(1)
	return cq, nil
}

// Entries returns the size of the queue.
func (cq *CQ) Entries() int { return len(cq.ring) }

// Context returns the context given at creation.
func (cq *CQ) Context() any { return cq.context }

// Poll moves completions to batch.
func (cq *CQ) Poll(batch []rdma.WorkCompletion) (int, error) {
	n, err := cq.take(batch)
	dev := cq.on.dev
	if n == 0 && err == nil && len(batch) > 0 && (cq.receives.Load() > 0 || dev.stalled.Load() > 0) &&
		dev.backend.Progress() {
		return cq.take(batch)
	}
	return n, err
}

func (cq *CQ) take(batch []rdma.WorkCompletion) (int, error) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.isClosed {
		return 0, rdma.ClosedError("poll CQ", "completion queue")
	}
	n := min(len(batch), cq.count)
	for i := range n {
		c := &cq.ring[cq.head]
		batch[i] = c.wc
		if c.sent != nil {
			c.sent.retire(c.upTo)
			c.sent = nil
		}
		if cq.head++; cq.head == len(cq.ring) {
			cq.head = 0
		}
	}
	cq.count -= n
	if n == 0 && cq.overrun && len(batch) > 0 {
		return 0, rdma.Errorf("poll CQ", syscall.EIO, "the completion queue of %d entries overflowed", len(cq.ring))
	}
	return n, nil
}

// push adds completions and returns the number that it added. If not all fit, the queue is permanently in the error
// state, and the caller must also put the queue pair into it.
func (cq *CQ) push(list []completion) int {
	if len(list) == 0 {
		return 0
	}
	cq.mu.Lock()
	n, notify := 0, false
	if !cq.isClosed && !cq.overrun {
		n = min(len(list), len(cq.ring)-cq.count)
	}
	for j := range list[:n] {
		c := &list[j]
		i := cq.head + cq.count
		if i >= len(cq.ring) {
			i -= len(cq.ring)
		}
		cq.ring[i] = *c
		cq.count++
		if cq.armed == armedAny || cq.armed == armedSolicited && (c.solicited || c.wc.Status != rdma.WCSuccess) {
			notify = true
			cq.arm(notArmed)
		}
	}
	first := n < len(list) && !cq.overrun && !cq.isClosed
	if n < len(list) {
		cq.overrun = true
	}
	cq.mu.Unlock()
	if notify {
		cq.channel.box.push(cq)
	}
	if first {
		cq.on.async.push(rdma.AsyncEvent{Type: rdma.AsyncCQErr, CQ: cq})
	}
	return n
}

// failQPs puts all queue pairs that use an overflowed queue into state ERR, once. The caller must not hold their locks.
func (cq *CQ) failQPs() {
	cq.mu.Lock()
	first := cq.overrun && !cq.failedQPs
	cq.failedQPs = cq.failedQPs || first
	cq.mu.Unlock()
	if !first {
		return
	}
	for _, q := range cq.on.dev.qpsBy(func(q *QP) bool { return q.sendCQ == cq || q.recvCQ == cq }) {
		if q.err() {
			q.pd.on.async.push(rdma.AsyncEvent{Type: rdma.AsyncQPFatal, QP: q})
		}
	}
}

// RequestNotify arms the queue.
func (cq *CQ) RequestNotify(solicited bool) error {
	const op = "request notification"
	err := cq.requestNotify(op, solicited)
	if err == nil {
		cq.on.dev.backend.Arm()
	}
	return err
}

func (cq *CQ) requestNotify(op string, solicited bool) error {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	switch {
	case cq.isClosed:
		return rdma.ClosedError(op, "completion queue")
	case cq.channel == nil:
		return rdma.Errorf(op, syscall.EINVAL, "the completion queue has no channel")
	case solicited:
		// Arming for solicited completions does not cancel arming for all (IBTA 11.4.2.2).
		cq.arm(max(cq.armed, armedSolicited))
	default:
		cq.arm(armedAny)
	}
	return nil
}

// arm sets the state of the queue and updates the device's number of armed queues. The caller holds mu.
func (cq *CQ) arm(a arming) {
	// Sends complete without Backend.Progress, so that a queue without receives does not count.
	counts := a != notArmed && cq.receives.Load() > 0
	switch {
	case counts && !cq.counted:
		cq.on.dev.armed.Add(1)
	case !counts && cq.counted:
		cq.on.dev.armed.Add(-1)
	}
	cq.armed, cq.counted = a, counts
}

// Close destroys the queue.
func (cq *CQ) Close() error {
	const op = "destroy CQ"
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.isClosed {
		return rdma.ClosedError(op, "completion queue")
	}
	if n := cq.used.Load(); n > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "%d queue pairs use it", n)
	}
	cq.isClosed = true
	cq.arm(notArmed)
	if cq.channel != nil {
		cq.channel.box.remove(func(q *CQ) bool { return q == cq })
		cq.channel.used.Add(-1)
	}
	cq.on.dev.cqs.Add(-1)
	cq.on.objects.Add(-1)
	return nil
}
