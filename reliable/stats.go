package reliable

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Stats returns the counters.
func (s *Sender) Stats() stats.Sender { return s.stats }

// streamCounts counts one stream's packets that were missing.
type streamCounts struct{ Repaired, Lost uint64 }

// Stats returns the counts of the stream's packets, and the state of its publisher.
func (st *Stream) Stats(now Instant) stats.Publisher {
	from := st.Origin()
	return stats.Publisher{
		ID: events.PublisherID(st.Publisher), Name: from.Name,
		Epoch: st.Epoch, Address: from.Address, LostFor: st.LostFor(now),
		Packets: st.next - st.start, Repaired: st.win.counts.Repaired, Lost: st.win.counts.Lost, Missing: st.nak.missing,
	}
}

// Settled is how many packets that were missing were repaired, or given up. Packets that were sent before the receiver
// joined do not count.
func (r *Receiver) Settled() uint64 { return r.stats.Repaired + r.stats.Lost - r.historyLost }

// Dropped is how many packets that arrived were dropped, so that they have to come again.
func (r *Receiver) Dropped() uint64 {
	return r.stats.Overrun + r.stats.Malformed + r.stats.Damaged + r.stats.Implausible + r.stats.Unreadable
}

// AnyMissing reports whether packets are missing just now.
func (r *Receiver) AnyMissing() bool {
	for _, st := range r.list {
		if st.nak.missing > 0 {
			return true
		}
	}
	return false
}

// countLost counts n packets that were given up.
func countLost(s *stats.Receiver, n uint64, cause events.Cause) {
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
