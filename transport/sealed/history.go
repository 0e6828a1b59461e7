package sealed

import "github.com/fanfaremq/fanfare/transport"

// history is what has come of a sender.
type history struct {
	newest int64  // the latest time that a packet of it stated, or what the clock was then if that was later
	next   uint64 // above all its counters that have come by any leg
	time   int64  // that the packet before next stated, as far as it is plausible, in full,
	timeAt int64  // when it came
	heard  int64  // when one came, in seconds of opener.elapsed
	came   [transport.MaxLegs]*track
}

// on returns what has come by a leg.
func (x *history) on(leg uint8) *track {
	leg %= transport.MaxLegs
	if x.came[leg] == nil {
		x.came[leg] = new(track)
	}
	return x.came[leg]
}

// seen reports whether a packet, which states that time in full, has come, or counts as come.
func (x *history) seen(h header, stated int64, leg uint8, skew int64) bool {
	return x.on(leg).seen(uint64(h.counter())) || skew > 0 && x.heldBack(h, stated, skew)
}

// heldBack reports whether somebody has kept a packet for a while: a later one came, which was sent
// by more than skew after it. Both times are of the sender's clock.
func (x *history) heldBack(h header, stated, skew int64) bool {
	return uint64(h.counter()) < x.next && x.time-stated > skew
}

// dated notes the time that a packet states. It is plausible as far as time has passed: one that somebody made up, or a clock that
// is set forward, makes nothing late that is under way. It is kept in full, so that one that is made up far in the past is no late one
// 2^31 seconds on.
func (x *history) dated(h header, stated, elapsed int64) {
	c := uint64(h.counter())
	if c < x.next {
		return
	}
	if first := x.next == 0; first {
		x.time = stated
	} else {
		x.time += min(stated-x.time, elapsed-x.timeAt+timeSlack)
	}
	x.next, x.timeAt = c+1, elapsed
}

// timeSlack is by how much more than the time that has passed here a sender's clock may go on between two packets, in
// seconds.
const timeSlack = 2
