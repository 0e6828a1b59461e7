package soft

import (
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/rdma"
)

// refusals records the datagrams of a queue pair that the system refused to send; rdma.RefusalCounter.
type refusals struct {
	count atomic.Uint64
	mu    sync.Mutex
	by    map[rdma.GID]error // by destination, if its last datagram was refused
}

// maxRefusals bounds the number of destinations, because senders of requests may be forged.
const maxRefusals = 64

// Refuse records that n datagrams to dst were refused with err. A Backend calls it in Transmit.
func (q *QP) Refuse(dst rdma.GID, n int, err error) {
	x := &q.refused
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.by == nil:
		x.by = make(map[rdma.GID]error)
	case len(x.by) >= maxRefusals && x.by[dst] == nil:
		clear(x.by)
	}
	x.by[dst] = err
	x.count.Add(uint64(n))
}

// Accept records that a datagram to dst was sent. A Backend that calls Refuse calls it in Transmit.
func (q *QP) Accept(dst rdma.GID) {
	x := &q.refused
	if x.count.Load() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.by, dst)
}

// Refused implements rdma.RefusalCounter.
func (q *QP) Refused() uint64 { return q.refused.count.Load() }

// Refusal implements rdma.RefusalCounter.
func (q *QP) Refusal(dst rdma.GID) error {
	x := &q.refused
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.by[dst]
}
