package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Delivery times by a common clock: each time that a receiver reports must be that from the first
// transmission of the packet to its delivery, as observed by the simulation.

// clock returns a wall clock that is the same for all processes, though each has its own monotonic time.
func (s *sim) clock() reliable.Clock {
	return reliable.Clock{ID: 1, Now: func() uint64 { return 1e18 + uint64(s.now) }}
}

// handedOut records when packets of new data are first passed to the network.
func (t *truth) handedOut(now reliable.Instant, train *transport.Outbound) {
	for i := range train.Count {
		b := train.Data[i*train.Stride:][:train.Lens[i]]
		if wire.Type(b[3]) == wire.TypeData && wire.DataSeq(b) == uint64(len(t.sentAt)) {
			t.sentAt = append(t.sentAt, now)
		}
	}
}

// deliveriesKept is how many deliveries are recorded: receivers report older ones only if many
// packets arrive between two heartbeats.
const deliveriesKept = 256

// deliveries are the last deliveries of a stream.
type deliveries struct {
	seq [deliveriesKept]uint64 // plus 1
	at  [deliveriesKept]reliable.Instant
}

// add records that the packet seq is delivered.
func (x *deliveries) add(now reliable.Instant, seq uint64) {
	x.seq[seq%deliveriesKept], x.at[seq%deliveriesKept] = seq+1, now
}

// of returns the time of a delivery; it may not be recorded any more.
func (x *deliveries) of(seq uint64) (reliable.Instant, bool) {
	return x.at[seq%deliveriesKept], x.seq[seq%deliveriesKept] == seq+1
}

// Timed implements reliable.Sink.
func (s *subscriber) Timed(st *reliable.Stream, seq uint64, elapsed time.Duration) {
	o := outputOf(st)
	if o.t == nil {
		return
	}
	at := s.sim.now // it will be delivered now
	if seq < st.Next() {
		var known bool
		if at, known = o.deliveries.of(seq); !known {
			return
		}
	}
	if want := at.Sub(o.t.sentAt[seq]); elapsed != want {
		s.sim.fail("subscriber %d: packet %d was delivered %v after it was sent, but the receiver reports %v", s.number, seq, want, elapsed)
	}
	s.sim.report.Timed++
	s.sim.report.timed = max(s.sim.report.timed, elapsed)
}
