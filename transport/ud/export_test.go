package ud

import "github.com/fanfaremq/fanfare/rdma"

// BreakQP puts the queue pair in error.
func (t *Transport) BreakQP() error {
	return t.verbs.qp.Modify(rdma.QPAttr{State: rdma.QPErr}, rdma.QPMaskState)
}
