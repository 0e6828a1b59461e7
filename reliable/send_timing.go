package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// sendTimer picks packets of a stream for receivers to measure how long their deliveries take, and
// notes when each is first handed to the transport. Heartbeats tell both: told.Next is the packet
// that was picked, before it is sent, and told.Packet the one before it, with the time told.At. It
// is one packet for each heartbeat at most, so that no packet costs anything. docs/protocol.md §5.11.
type sendTimer struct {
	clock  Clock
	handed uint64      // packets below were handed out, whether they were taken or not
	at     uint64      // when packet told.Next was handed out first; 0: it was not yet
	told   wire.Timing // what heartbeats say
}

// SetClock times packets from now on, for receivers who have the same clock.
func (s *Sender) SetClock(c Clock) { s.timer.clock = c }

// leaves notes that n packets from first on are handed to the transport.
func (x *sendTimer) leaves(first uint64, n int) {
	x.handed = max(x.handed, first+uint64(n))
	if x.clock.ID != 0 && x.at == 0 && x.told.Next-first < uint64(n) {
		x.at = x.clock.Now()
	}
}

// tell is what a heartbeat says, when all below lead were sent and new packets come at rate a
// second.
func (x *sendTimer) tell(now Instant, lead uint64, rate float64) wire.Timing {
	if x.clock.ID == 0 {
		return wire.Timing{}
	}
	x.told.Clock = x.clock.ID
	ahead := uint64(rate*timingAhead.Seconds()) + 1
	switch {
	case x.told.Next < lead:
		x.told.Packet, x.told.At, x.at = x.told.Next, x.at, 0
	case x.at != 0 || x.told.Next-lead < ahead:
		return x.told // it is on its way, or will be soon
	}
	// Not always the first behind a heartbeat: that has waited for the heartbeat.
	x.told.Next = max(lead, x.handed) + uint64(now)*0x9e3779b97f4a7c15>>32%ahead
	return x.told
}
