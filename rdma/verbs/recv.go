//go:build rdma && linux && cgo

package verbs

import (
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// recvQueue has the receive requests of one call, in C memory.
type recvQueue struct {
	mu     sync.Mutex
	closed bool         // under mu
	wrs    cverbs.Recvs // under mu
}

// init allocates the requests, and reports whether there was memory.
func (r *recvQueue) init(c rdma.QPCap) (ok bool) {
	r.wrs, ok = cverbs.NewRecvs(max(min(batch, c.MaxRecvWR), 1), c.MaxRecvSGE)
	return ok
}

func (r *recvQueue) free() {
	r.wrs.Free()
	r.wrs = cverbs.Recvs{}
}

// PostRecv posts receive buffers, up to batch of them in one call of C. Each should have rdma.GRHBytes plus the port's
// MTU: with rxe of kernel 6.1 a message larger than the buffer puts the queue pair into state ERR.
func (q *qp) PostRecv(wrs []rdma.RecvWR) (int, error) {
	const op = "post receive"
	r := &q.rq
	r.mu.Lock()
	defer r.mu.Unlock()
	done := 0
	for done < len(wrs) {
		var refused *rdma.Error
		n := min(len(wrs)-done, max(len(r.wrs.WRs), 1))
		k := 0
		for ; k < n; k++ {
			wr := &wrs[done+k]
			switch {
			case r.closed:
				refused = rdma.ClosedError(op, "queue pair")
			case rdma.QPState(q.state.Load()) == rdma.QPReset:
				refused = rdma.Errorf(op, syscall.EINVAL, "the queue pair is in RESET")
			case len(wr.SG) > r.wrs.MaxSGE:
				refused = rdma.Errorf(op, syscall.EINVAL, "%d elements exceed the queue pair's limit of %d", len(wr.SG), r.wrs.MaxSGE)
			}
			if refused != nil {
				break
			}
			c := &r.wrs.WRs[k]
			c.WRID, c.NumSGE = wr.WRID, int32(fillSG(r.wrs.SG(k), wr.SG))
		}
		if k > 0 {
			posted, errno := q.c.PostRecv(r.wrs, k)
			done += posted
			if errno != 0 {
				refused = rdma.Errorf(op, errno, "the device refused it")
				if errno == syscall.ENOMEM {
					refused.Detail = "the receive queue is full"
				}
			}
		}
		if refused != nil {
			return done, &rdma.PostError{Index: done, WRID: wrs[done].WRID, Err: refused}
		}
	}
	return done, nil
}
