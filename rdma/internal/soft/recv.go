package soft

import (
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// recvQueue is a ring of receive buffers: count of them from head.
type recvQueue struct {
	mu     sync.Mutex
	slots  []recvSlot
	sges   []rdma.SGE // MaxRecvSGE for each slot
	maxSGE int
	head   int
	count  int
}

type recvSlot struct {
	wrid uint64
	sg   []rdma.SGE
	room int // bytes
}

func (r *recvQueue) init(c rdma.QPCap) {
	r.slots = make([]recvSlot, c.MaxRecvWR)
	r.sges = make([]rdma.SGE, c.MaxRecvWR*c.MaxRecvSGE)
	r.maxSGE = c.MaxRecvSGE
}

// reset discards all buffers. The caller holds mu.
func (r *recvQueue) reset() {
	r.head, r.count = 0, 0
	clear(r.slots)
	clear(r.sges)
}

// pop removes the oldest buffer from the queue. The caller holds mu.
func (r *recvQueue) pop() *recvSlot {
	s := &r.slots[r.head]
	if r.head++; r.head == len(r.slots) {
		r.head = 0
	}
	r.count--
	return s
}

// PostRecv posts receive buffers.
func (q *QP) PostRecv(wrs []rdma.RecvWR) (int, error) {
	var refused *rdma.Error
	n := 0
	q.rq.mu.Lock()
	for ; n < len(wrs); n++ {
		if refused = q.postRecv(&wrs[n]); refused != nil {
			break
		}
	}
	if q.current() == rdma.QPErr {
		q.flushRecvs()
	}
	q.rq.mu.Unlock()
	if refused != nil {
		return n, &rdma.PostError{Index: n, WRID: wrs[n].WRID, Err: refused}
	}
	return n, nil
}

// postRecv puts a buffer in the ring. The caller holds rq.mu.
func (q *QP) postRecv(wr *rdma.RecvWR) *rdma.Error {
	const op = "post receive"
	r := &q.rq
	switch {
	case q.closed.Load():
		return rdma.ClosedError(op, "queue pair")
	case q.current() == rdma.QPReset:
		return rdma.Errorf(op, syscall.EINVAL, "the queue pair is in RESET")
	case len(wr.SG) > r.maxSGE:
		return rdma.Errorf(op, syscall.EINVAL, "%d elements exceed the queue pair's limit of %d", len(wr.SG), r.maxSGE)
	case r.count == len(r.slots):
		return rdma.Errorf(op, syscall.ENOMEM, "the receive queue of %d is full", len(r.slots))
	}
	i := r.head + r.count
	if i >= len(r.slots) {
		i -= len(r.slots)
	}
	s := &r.slots[i]
	s.wrid, s.room = wr.WRID, 0
	s.sg = r.sges[i*r.maxSGE:][:copy(r.sges[i*r.maxSGE:(i+1)*r.maxSGE], wr.SG)]
	for j := range s.sg {
		s.room += len(s.sg[j].Buf)
	}
	r.count++
	return nil
}

// flushRecvs completes all buffers with an error. The caller holds rq.mu.
func (q *QP) flushRecvs() {
	for q.rq.count > 0 {
		q.recvCQ.push([]completion{{wc: rdma.WorkCompletion{
			WRID: q.rq.pop().wrid, Status: rdma.WCWRFlushErr, Opcode: rdma.WCRecv, QPN: q.qpn,
		}}})
	}
}
