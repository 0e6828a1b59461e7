package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Clock is a wall clock that measures delivery times. docs/protocol §5.11.
type Clock struct {
	ID  uint64        // equal for clocks that agree; 0: nothing is timed
	Now func() uint64 // nanoseconds since 1970
}

const (
	// timingAhead bounds how far ahead of its transmission a packet is selected for timing.
	timingAhead = activeHeartbeat / 2
	// timingsKept is the maximum number of a stream's timed packets that are still to be delivered.
	timingsKept = 16
	// maxDelivery is the longest time that counts as a delivery time.
	maxDelivery = time.Hour
)

// sendTimer selects packets by which receivers measure delivery times, and records when each is first handed to the
// transport. Heartbeats state both: said.Next is the selected packet, before it is sent; said.Packet is the one
// selected before, with its time said.At. At most one packet per heartbeat is timed, so there is no cost per packet.
// docs/protocol §5.11.
type sendTimer struct {
	clock  Clock
	handed uint64      // packets below were handed to the transport, taken or not
	at     uint64      // when packet said.Next was first handed over; 0: not yet
	said   wire.Timing // as stated by the last heartbeat
}

// SetClock starts timing packets, for receivers with the same clock.
func (s *Sender) SetClock(c Clock) { s.timer.clock = c }

// leaves records that n packets from first on are handed to the transport.
func (x *sendTimer) leaves(first uint64, n int) {
	x.handed = max(x.handed, first+uint64(n))
	if x.clock.ID != 0 && x.at == 0 && x.said.Next-first < uint64(n) {
		x.at = x.clock.Now()
	}
}

// timing returns the timing for a heartbeat with this lead. rate is the number of new packets a second.
func (x *sendTimer) timing(now Instant, lead uint64, rate float64) wire.Timing {
	if x.clock.ID == 0 {
		return wire.Timing{}
	}
	x.said.Clock = x.clock.ID
	ahead := uint64(rate*timingAhead.Seconds()) + 1
	switch {
	case x.said.Next < lead:
		x.said.Packet, x.said.At, x.at = x.said.Next, x.at, 0
	case x.at != 0 || x.said.Next-lead < ahead:
		return x.said // it was sent, or will be soon
	}
	// A random offset, because the first packet behind a heartbeat was delayed by the heartbeat.
	x.said.Next = max(lead, x.handed) + uint64(now)*0x9e3779b97f4a7c15>>32%ahead
	return x.said
}

// deliveryTimer measures the delivery times of the few packets that a stream's publisher selects. One heartbeat names
// such a packet before it is sent, and a later one states when it was sent; its delivery is between the two, or later.
// The timer keeps the packets in order until both times are known. Only the last one may have an unknown send time, and
// only that one may have been delivered already. docs/protocol §5.12.
type deliveryTimer struct {
	next    uint64 // the lowest sequence still to be delivered; noTiming: none
	count   int    // of packets
	packets [timingsKept]timedPacket
}

// timedPacket is one selected packet.
type timedPacket struct {
	seq             uint64
	sent, delivered uint64 // when, in nanoseconds of the clock; 0: unknown
}

const noTiming = ^uint64(0)

// SetClock starts timing deliveries from publishers with the same clock.
func (r *Receiver) SetClock(c Clock) { r.clock = c }

// heard processes the timing in a new heartbeat. It ignores an invalid one, such as a send time of a packet not below
// the lead. The wait for that packet's delivery would keep later ones from being timed.
func (x *deliveryTimer) heard(st *Stream, hb *wire.Heartbeat) {
	t := &hb.Timing
	if t.Clock == 0 || t.Clock != st.r.clock.ID || t.Next < hb.Lead || t.At != 0 && t.Packet >= hb.Lead {
		return
	}
	if last := x.count - 1; last >= 0 && x.packets[last].sent == 0 {
		p := &x.packets[last]
		switch {
		case t.At != 0 && t.Packet == p.seq && p.delivered != 0:
			st.timed(p.seq, t.At, p.delivered)
			x.count = last
		case t.At != 0 && t.Packet == p.seq:
			p.sent = t.At
		case t.Next != p.seq:
			x.count = last // it is not timed any more, or the heartbeat with its send time was lost
		}
	}
	if t.Next >= st.next && x.count < len(x.packets) && (x.count == 0 || x.packets[x.count-1].seq < t.Next) {
		x.packets[x.count] = timedPacket{seq: t.Next}
		x.count++
	}
	x.setNext()
}

// deliver records that packet st.next, which is not below x.next, is about to be delivered.
func (x *deliveryTimer) deliver(st *Stream) {
	passed := 0
	for passed < x.count && x.packets[passed].seq < st.next {
		passed++ // lost permanently
	}
	if passed < x.count && x.packets[passed].seq == st.next {
		if p := &x.packets[passed]; p.sent != 0 {
			st.timed(p.seq, p.sent, st.r.clock.Now())
			passed++
		} else {
			p.delivered = st.r.clock.Now()
		}
	}
	x.count = copy(x.packets[:], x.packets[passed:x.count])
	x.setNext()
}

// setNext sets next to the first packet still to be delivered.
func (x *deliveryTimer) setNext() {
	x.next = noTiming
	if x.count > 0 && x.packets[0].delivered == 0 {
		x.next = x.packets[0].seq
	}
}

// timed reports the delivery time of a packet.
func (st *Stream) timed(seq, sent, delivered uint64) {
	if took := time.Duration(delivered - sent); took < 0 || took > maxDelivery {
		st.r.stats.ClocksApart++
	} else {
		st.r.sink.Timed(st, seq, took)
	}
}
