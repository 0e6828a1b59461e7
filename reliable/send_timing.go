package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// sendTimer picks packets of a stream for receivers to measure how long their deliveries take, and records when each is
// first handed to the transport. Heartbeats have both: said.Next is the packet that was picked, before it is sent, and
// said.Packet the one before it, with the time said.At. It is one packet for each heartbeat at most, so that it costs
// nothing per packet. docs/protocol §5.11.
type sendTimer struct {
	clock  Clock
	handed uint64      // packets below were handed out, whether they were taken or not
	at     uint64      // when packet said.Next was handed out first; 0: it was not yet
	said   wire.Timing // as the last heartbeat has it
}

// SetClock times packets from now on, for receivers with the same clock.
func (s *Sender) SetClock(c Clock) { s.timer.clock = c }

// leaves notes that n packets from first on are handed to the transport.
func (x *sendTimer) leaves(first uint64, n int) {
	x.handed = max(x.handed, first+uint64(n))
	if x.clock.ID != 0 && x.at == 0 && x.said.Next-first < uint64(n) {
		x.at = x.clock.Now()
	}
}

// timing returns the fields of a heartbeat, when all packets below lead were sent and new ones follow at rate a second.
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
		return x.said // it is on its way, or will be soon
	}
	// Not always the first behind a heartbeat: that has waited for the heartbeat.
	x.said.Next = max(lead, x.handed) + uint64(now)*0x9e3779b97f4a7c15>>32%ahead
	return x.said
}
