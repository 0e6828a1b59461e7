package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// timings are the packets of a stream whose delivery is timed, in their order. Only of the
// last one it may be unknown when it was sent, and only that may have been delivered.
// docs/protocol.md §5.12.
type timings struct {
	next uint64 // the lowest that is still to be delivered; noTiming: there is none
	n    int
	of   [timingsKept]timedPacket
}

type timedPacket struct {
	seq, sent, delivered uint64 // the times are 0 while they are not known
}

const noTiming = ^uint64(0)

// SetClock times deliveries from now on, from publishers who have the same clock.
func (r *Receiver) SetClock(c Clock) { r.clock = c }

// heard takes in what a new heartbeat says of the packets from next on, which are still to be delivered. A packet
// that does not exist by the same heartbeat has not been sent: to remember it would keep all that
// follow from being timed.
func (x *timings) heard(st *Stream, hb *wire.Heartbeat) {
	t := &hb.Timing
	if t.Clock == 0 || t.Clock != st.r.clock.ID || t.Next < hb.Lead || t.At != 0 && t.Packet >= hb.Lead {
		return
	}
	if last := x.n - 1; last >= 0 && x.of[last].sent == 0 {
		p := &x.of[last]
		switch {
		case t.At != 0 && t.Packet == p.seq && p.delivered != 0:
			st.timed(p.seq, t.At, p.delivered)
			x.n = last
		case t.At != 0 && t.Packet == p.seq:
			p.sent = t.At
		case t.Next != p.seq:
			x.n = last // it will not be timed, or nobody told us when it was sent
		}
	}
	if t.Next >= st.next && x.n < len(x.of) && (x.n == 0 || x.of[x.n-1].seq < t.Next) {
		x.of[x.n] = timedPacket{seq: t.Next}
		x.n++
	}
	x.look()
}

// deliver notes that the packet st.next, which is x.next or behind it, is about to be delivered.
func (x *timings) deliver(st *Stream) {
	passed := 0
	for passed < x.n && x.of[passed].seq < st.next {
		passed++ // lost for good
	}
	if passed < x.n && x.of[passed].seq == st.next {
		if p := &x.of[passed]; p.sent != 0 {
			st.timed(p.seq, p.sent, st.r.clock.Now())
			passed++
		} else {
			p.delivered = st.r.clock.Now()
		}
	}
	x.n = copy(x.of[:], x.of[passed:x.n])
	x.look()
}

// look finds the first that is still to be delivered.
func (x *timings) look() {
	x.next = noTiming
	if x.n > 0 && x.of[0].delivered == 0 {
		x.next = x.of[0].seq
	}
}

// timed tells of a packet that was sent, and delivered.
func (st *Stream) timed(seq, sent, delivered uint64) {
	if took := time.Duration(delivered - sent); took < 0 || took > maxDelivery {
		st.r.stats.ClocksApart++
	} else {
		st.r.sink.Timed(st, seq, took)
	}
}
