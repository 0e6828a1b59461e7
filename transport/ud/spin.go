package ud

import (
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

// spin lets the provider poll for packets, if it can (rdma.Spinner), while the loop spins: the loop
// polls, finds nothing, and polls again without a Wait in between. Loop only.
type spin struct {
	cq   rdma.Spinner // nil: the provider cannot
	idle bool         // the latest Poll found nothing, and there was no Wait since
}

// lookFor is shorter than other work of the loop, and longer than the cost of a call.
const lookFor = 2 * time.Microsecond

// limit is how long a Poll may look that has come as far as b.
func (s *spin) limit(b *transport.Batch) time.Duration {
	if s.cq == nil || !s.idle || len(b.Events) > 0 {
		return 0
	}
	return lookFor
}

// polled records the result of a Poll.
func (s *spin) polled(b *transport.Batch) {
	s.idle = len(b.Trains) == 0 && len(b.Events) == 0
}
