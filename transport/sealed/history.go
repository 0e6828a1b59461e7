package sealed

import "github.com/fanfaremq/fanfare/transport"

// history is what has come of a sender.
type history struct {
	newest int64  // the latest time that a packet of it stated, or what the clock was then if that was later
	next   uint64 // above all its counters that have come by any leg
	time   uint32 // that the packet before next stated, as far as it is plausible,
	timeAt int64  // when it came
	ahead  int64  // of opener.elapsed, by which the sender's clock was at most, as far as that is plausible, since it was set back
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

// seen reports whether a packet has come, or counts as come.
func (x *history) seen(h header, leg uint8, skew int64) bool {
	return x.on(leg).seen(uint64(h.counter())) || skew > 0 && x.heldBack(h, skew)
}

// heldBack reports whether somebody has kept a packet for a while: a later one came, which was sent
// by more than skew after it. Both times are of the sender's clock.
func (x *history) heldBack(h header, skew int64) bool {
	return uint64(h.counter()) < x.next && int64(int32(x.time-h.time())) > skew
}

// slowed reports whether somebody plays a sender's packets back more slowly than it sent them: with what its clock
// was, and the time that has passed since, more than skew has passed since this one was sent. A sender whose clock was set back by
// that much is not meant.
func (x *history) slowed(h header, stated, elapsed, skew int64) bool {
	return x.ahead+elapsed-stated > skew && !x.setBack(h, skew)
}

// setBack reports whether a packet shows that the sender's clock was set back by more than skew.
func (x *history) setBack(h header, skew int64) bool {
	return uint64(h.counter()) >= x.next && int64(int32(x.time-h.time())) > skew
}

// dated notes the time that a packet states, which is stated in full. It is plausible as far as time has passed: one that somebody
// made up, or a clock that is set forward, makes nothing late that is under way.
func (x *history) dated(h header, stated, elapsed, skew int64) {
	c := uint64(h.counter())
	first := x.next == 0
	switch ahead := stated - elapsed; {
	case first || x.setBack(h, skew):
		x.ahead = ahead
	case ahead > x.ahead:
		x.ahead = min(ahead, x.ahead+timeSlack)
	}
	if c < x.next {
		return
	}
	if first {
		x.time = h.time()
	} else {
		x.time += uint32(min(int64(int32(h.time()-x.time)), elapsed-x.timeAt+timeSlack))
	}
	x.next, x.timeAt = c+1, elapsed
}

// timeSlack is by how much more than the time that has passed here a sender's clock may go on between two packets, in
// seconds.
const timeSlack = 2
