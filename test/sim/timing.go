package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Times of deliveries, by a clock that all share: each that a receiver reports is the time from when the publisher
// handed the packet out first to its delivery, as seen from here.

// clock is a wall clock, the same for all though each process has a time of its own.
func (s *sim) clock() reliable.Clock {
	return reliable.Clock{ID: 1, Now: func() uint64 { return 1e18 + uint64(s.now) }}
}

// handedOut notes when packets of new data are handed out first.
func (t *truth) handedOut(now reliable.Instant, train *transport.Outbound) {
	for i := range train.Count {
		b := train.Data[i*train.Stride:][:train.Lens[i]]
		if wire.Type(b[3]) == wire.TypeData && wire.DataSeq(b) == uint64(len(t.handed)) {
			t.handed = append(t.handed, now)
		}
	}
}

// deliveriesKept is how many deliveries are remembered: receivers report older ones only
// if many packets come between two heartbeats.
const deliveriesKept = 256

// deliveries are the last ones of a stream.
type deliveries struct {
	seq [deliveriesKept]uint64 // plus 1
	at  [deliveriesKept]reliable.Instant
}

// note notes that the packet seq is delivered.
func (x *deliveries) note(now reliable.Instant, seq uint64) {
	x.seq[seq%deliveriesKept], x.at[seq%deliveriesKept] = seq+1, now
}

// of is when it was; it may be forgotten.
func (x *deliveries) of(seq uint64) (reliable.Instant, bool) {
	return x.at[seq%deliveriesKept], x.seq[seq%deliveriesKept] == seq+1
}

// Timed implements reliable.Sink.
func (s *subscriber) Timed(st *reliable.Stream, seq uint64, took time.Duration) {
	o := outputOf(st)
	if o.t == nil {
		return
	}
	at := s.sim.now // it is about to be delivered
	if seq < st.Next() {
		var known bool
		if at, known = o.deliveries.of(seq); !known {
			return
		}
	}
	if want := at.Sub(o.t.handed[seq]); took != want {
		s.sim.fail("subscriber %d: packet %d was delivered %v after it was sent, the receiver says %v", s.number, seq, want, took)
	}
	s.sim.report.Timed++
	s.sim.report.timed = max(s.sim.report.timed, took)
}
