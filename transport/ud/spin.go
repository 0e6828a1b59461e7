package ud

import (
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

// spin makes the provider poll for packets, if it supports that (rdma.Spinner), while the loop spins: while it polls
// repeatedly without a Wait and without packets. Loop only.
type spin struct {
	cq   rdma.Spinner // nil: not supported
	idle bool         // the latest Poll returned nothing, and no Wait followed
}

// spinTime is shorter than other work of the loop, and longer than the cost of a call.
const spinTime = 2 * time.Microsecond

// limit is how long a Poll may poll for packets, given what is in b already.
func (s *spin) limit(b *transport.Batch) time.Duration {
	if s.cq == nil || !s.idle || len(b.Events) > 0 {
		return 0
	}
	return spinTime
}

// polled records the result of a Poll.
func (s *spin) polled(b *transport.Batch) { s.idle = len(b.Trains) == 0 && len(b.Events) == 0 }
