package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

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
