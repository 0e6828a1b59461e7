package reliable

import "time"

// repairBudget is what repairs may take: a share of the data that is sent, or a window each round trip if
// that is more. The window is a burst; where no data is sent it doubles while it is used up and no packet
// is asked for again, as TCP's after a start (RFC 9293 §3.8.2). docs/protocol.md §6.11.
type repairBudget struct {
	tokenBucket
	share  float64
	packet int

	window float64       // bytes a round trip
	rtt    time.Duration // of the farthest of those that asked
	round  time.Duration // how long the round is
	held   bool          // flow control lets no data out
	began  Instant       // the round
	timed  float64       // of what time gave, how much no data has earned yet

	data, dataBefore       float64 // bytes sent in this round, and in the one before
	repaired, lastRepaired int     // packets repaired
	again, repeated        int     // packets asked for, and repaired, that had been repaired before
	slowest                time.Duration
	short                  bool // a repair had to wait in this round
	calm                   int  // round trips in a row in which none had to
}

func (b *repairBudget) init(share float64, packet int, now Instant) {
	*b = repairBudget{share: share, packet: packet, rtt: startRTT, round: startRTT, began: now}
	b.window = b.start()
	b.tokenBucket.init(b.window/b.rtt.Seconds(), b.window, now)
}

// start is the window that a round trip has at first: one burst.
func (b *repairBudget) start() float64 { return float64(max(repairBurst, b.packet)) }

// asked notes that a receiver at a round trip has asked for something.
func (b *repairBudget) asked(rtt time.Duration) { b.slowest = max(b.slowest, rtt) }

// spent takes in that so many bytes of data were sent.
func (b *repairBudget) spent(now Instant, bytes int) {
	b.tick(now)
	earned := b.share * float64(bytes)
	b.data += earned
	b.deepen()
	given := min(earned, b.timed)
	b.timed -= given
	b.tokens = min(b.burst, b.tokens+earned-given)
}

// deepen lets as much be saved up as a round trip gives.
func (b *repairBudget) deepen() { b.burst = max(b.window, b.data, b.dataBefore) }

// tick takes in that it is now.
func (b *repairBudget) tick(now Instant) {
	before := b.tokens
	b.refill(now)
	b.timed = min(b.burst, b.timed+max(0, b.tokens-before))
	if now.Sub(b.began) < b.round && (!b.held || now.Sub(b.began) < b.rtt) {
		return
	}
	if b.calm += int(min(now.Sub(b.began)/b.round, 4)); b.short {
		b.calm = 0
	}
	switch {
	case b.calm >= 4, b.data > 0, 8*b.again > max(b.repaired, b.lastRepaired), 8*b.repeated > b.repaired:
		b.window = b.start()
	case b.again+b.repeated == 0 && b.short:
		b.window *= 2
	}
	if b.slowest > 0 {
		b.rtt = max(minRetry, b.slowest)
	}
	b.began = now
	b.dataBefore, b.lastRepaired = b.data, b.repaired
	b.data, b.repaired, b.again, b.repeated, b.slowest, b.short = 0, 0, 0, 0, 0, false
	b.round = b.rtt
	if b.dataBefore > 0 && !b.held {
		b.round = max(b.rtt, repairBusy)
	}
	b.rate = b.window / b.round.Seconds()
	b.deepen()
}

// takes takes what a repair of e needs, if it is there and keep bytes more.
func (b *repairBudget) takes(now Instant, e *windowSlot, keep int) bool {
	b.tick(now)
	if !b.takeAbove(now, int(e.size), keep) {
		b.short = true
		return false
	}
	b.repaired++
	if e.repairedAt != 0 {
		b.repeated++
	}
	return true
}

// speed is what it gives at present, in bytes a second.
func (b *repairBudget) speed() float64 { return max(b.window, b.dataBefore) / b.round.Seconds() }
