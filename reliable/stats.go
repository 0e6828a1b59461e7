package reliable

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Stats returns the counters.
func (s *Sender) Stats() stats.SenderPackets { return s.stats }

// streamCounts counts a stream's packets that were repaired or lost.
type streamCounts struct{ Repaired, Lost uint64 }

// Stats returns the counters of the stream, and the state of its publisher.
func (st *Stream) Stats(now Instant) stats.Publisher {
	from := st.Origin()
	return stats.Publisher{
		ID: st.Publisher, Name: from.Name,
		Epoch: st.Epoch, Address: from.Address, LostFor: st.LostFor(now),
		Packets: st.next - st.start, Repaired: st.win.counts.Repaired, Lost: st.win.counts.Lost, Missing: st.nak.missing,
	}
}

// Settled is the number of missing packets that were repaired or given up. Packets sent before the receiver joined do
// not count.
func (r *Receiver) Settled() uint64 { return r.stats.Repaired + r.stats.Lost - r.historyLost }

// Dropped is the number of arrived packets that were dropped, and so must be sent again.
func (r *Receiver) Dropped() uint64 {
	return r.stats.Overrun + r.stats.Malformed + r.stats.Damaged + r.stats.Implausible + r.stats.Unreadable
}

// AnyMissing reports whether packets are missing now.
func (r *Receiver) AnyMissing() bool {
	for _, st := range r.list {
		if st.nak.missing > 0 {
			return true
		}
	}
	return false
}

// countLost counts n packets that were given up for cause.
func countLost(s *stats.ReceiverPackets, n uint64, cause events.Cause) {
	s.Lost += n
	switch cause {
	case events.CauseGone:
		s.LostGone += n
	case events.CauseDeadline:
		s.LostDeadline += n
	case events.CauseOverrun:
		s.LostOverrun += n
	case events.CauseReleased:
		s.LostReleased += n
	case events.CauseUnreadable:
		s.LostUnreadable += n
	case events.CausePublisherLost, events.CauseRestart:
		s.LostEnd += n
	}
}
