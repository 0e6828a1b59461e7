package reliable

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Refusal says why a receiver does not follow a publisher. docs/protocol.md §12.1.
type Refusal uint8

const (
	// RefusedPublishers: the group has as many streams as there may be
	// (ReceiverConfig.MaxStreams), and none of them is over.
	RefusedPublishers Refusal = iota
	// RefusedMemory: there is no memory for a receive window.
	RefusedMemory
	// RefusedPeers: the transport can reply to no further publisher.
	RefusedPeers
)

func (r Refusal) String() string {
	switch r {
	case RefusedPublishers:
		return "as many publishers as there may be are heard in its group"
	case RefusedMemory:
		return "there is no memory for its receive window"
	case RefusedPeers:
		return "the transport has as many peers as there may be"
	}
	return fmt.Sprintf("refusal(%d)", uint8(r))
}

// refuse counts a packet of a publisher that is not followed, and tells the sink.
func (r *Receiver) refuse(now Instant, h *wire.Header, why Refusal) {
	r.stats.StreamsRefused++
	r.sink.Refused(now, h.Publisher, h.Epoch, why)
}
