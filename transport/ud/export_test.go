package ud

import (
	"sync"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

// BreakQP puts the queue pair into the error state.
func (t *Transport) BreakQP() error {
	return t.verbs.qp.Modify(rdma.QPAttr{State: rdma.QPErr}, rdma.QPMaskState)
}

// Header returns the GRH of a lent packet.
func (t *Transport) Header(from transport.Source) []byte {
	_, mem := t.recv.packet(uint64(from))
	return mem[:rdma.GRHBytes]
}

// Locked reports whether the receive or the send queue is locked.
func (t *Transport) Locked() bool {
	for _, mu := range []*sync.Mutex{&t.recv.mu, &t.send.mu} {
		if !mu.TryLock() {
			return true
		}
		mu.Unlock()
	}
	return false
}
