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

// rttEstimator smooths round trips as TCP does (RFC 6298), with an initial value for a LAN.
type rttEstimator struct {
	smoothed, variance time.Duration
	newest             time.Duration
	measured           bool
}

// sample adds a measured round trip. docs/protocol §6.9.
func (r *rttEstimator) sample(d time.Duration) {
	d = min(max(d, minRTT), farRTT)
	r.newest = d
	if !r.measured {
		r.smoothed, r.variance, r.measured = d, d/2, true
		return
	}
	diff := max(r.smoothed-d, d-r.smoothed)
	r.variance += (diff - r.variance) / 4
	r.smoothed += (d - r.smoothed) / 8
}

// sampleCut adds a time that is sometimes longer than a round trip, such as that of a copy after the first was lost. It
// limits how far one sample moves the estimate.
func (r *rttEstimator) sampleCut(d time.Duration) {
	if r.measured {
		d = min(d, r.smoothed+r.smoothed/2+100*time.Microsecond)
	}
	r.sample(d)
}

// recent is the newest sample, or the initial value.
func (r *rttEstimator) recent() time.Duration {
	if !r.measured {
		return startRTT
	}
	return r.newest
}

// hold is how long a sent packet may be in transit: until then it is not lost. It rises with the first longer sample,
// and falls slowly (RFC 9002 §6.1.2, §6.2.1).
func (r *rttEstimator) hold() time.Duration { return max(r.newest, r.value()+4*r.variance) }

// value is the smoothed round trip.
func (r *rttEstimator) value() time.Duration {
	if !r.measured {
		return startRTT
	}
	return r.smoothed
}

// known is value, or zero before the first measurement.
func (r *rttEstimator) known() time.Duration {
	if !r.measured {
		return 0
	}
	return r.smoothed
}

// retry is how long to wait for an answer before asking again. Queueing of answers makes it longer, but it stays short
// enough for many attempts within the recovery deadline, unless the path itself is long. path is the round trip of
// heartbeats and statuses, which do not queue. docs/protocol §6.9.
func (r *rttEstimator) retry(path time.Duration) time.Duration {
	if !r.measured {
		return max(minRetry, 2*startRTT)
	}
	return min(max(maxRetry, 2*min(path, farRTT)), max(minRetry, r.smoothed+4*r.variance))
}
