package ud

import (
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

// BreakQP puts the queue pair in error.
func (t *Transport) BreakQP() error {
	return t.verbs.qp.Modify(rdma.QPAttr{State: rdma.QPErr}, rdma.QPMaskState)
}

// Header is the GRH area of a packet that is lent.
func (t *Transport) Header(from transport.Source) []byte {
	_, i := t.rq.lent(uint64(from))
	return t.rq.sges[i].Buf[:rdma.GRHBytes]
}
