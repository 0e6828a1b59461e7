package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// refuse counts a packet of a publisher that the receiver does not follow, and reports it to the sink.
func (r *Receiver) refuse(now Instant, h *wire.Header, why events.Refusal) {
	r.stats.StreamsRefused++
	r.sink.Refused(now, h.Instance(), why)
}
