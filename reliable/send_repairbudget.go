package reliable

import "time"

// repairBudget limits repairs. While the publisher sends data, repairs of losses take a share of it and no
// more. Otherwise they take a window each round trip, as history for late joiners always does: one burst, and,
// where no data is sent, twice as much after each round trip that used it up while no packet was requested
// again, as TCP's window after a start (RFC 9293 §3.8.2). docs/protocol.md §6.11.
type repairBudget struct {
	tokenBucket         // the window's bytes
	share       float64 // of data
	earned      float64 // bytes, by data
	packet      int

	window float64       // bytes a round trip
	rtt    time.Duration // of the farthest of those that asked; it rises at once and falls by half
	round  time.Duration // how long the round is
	held   bool          // flow control lets no data out
	began  Instant       // the round

	data, dataBefore       float64 // bytes earned by data in this round, and in the one before
	repaired, lastRepaired int     // packets repaired
	again, repeated        int     // packets asked for, and repaired, that had been repaired before
	slowest                time.Duration
	short                  bool // a repair had to wait in this round
	calm                   int  // round trips in a row in which none had to
}

func (b *repairBudget) init(share float64, packet int, now Instant) {
	*b = repairBudget{share: share, packet: packet, rtt: startRTT, round: startRTT, began: now}
	b.window = b.start()
	b.earned = b.window
	b.tokenBucket.init(b.window/b.rtt.Seconds(), b.window, now)
}

// start is the window that a round trip has at first: one burst.
func (b *repairBudget) start() float64 { return float64(max(repairBurst, b.packet)) }

// asked notes that a receiver at a round trip has asked for something.
func (b *repairBudget) asked(rtt time.Duration) { b.slowest = max(b.slowest, rtt) }

// spent takes in that so many bytes of data were sent.
func (b *repairBudget) spent(now Instant, bytes int) {
	b.tick(now)
	b.data += b.share * float64(bytes)
	b.earned = min(b.depth(), b.earned+b.share*float64(bytes))
}

// depth is how much of what data earns can be saved.
func (b *repairBudget) depth() float64 { return max(b.start(), b.data, b.dataBefore) }

// busy reports whether the publisher sends data: in this round or in the one before.
func (b *repairBudget) busy() bool { return b.data+b.dataBefore > 0 && !b.held }

// tick takes in that it is now.
func (b *repairBudget) tick(now Instant) {
	b.refill(now)
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
	before := b.rtt
	if b.slowest > 0 {
		b.rtt = max(minRetry, b.slowest, b.rtt/2)
	}
	if b.short && 2*b.repeated > b.repaired { // they fill a queue, or are in vain
		b.rtt = max(b.rtt, min(2*before, maxRetry))
	}
	b.began = now
	b.dataBefore, b.lastRepaired = b.data, b.repaired
	b.data, b.repaired, b.again, b.repeated, b.slowest, b.short = 0, 0, 0, 0, 0, false
	b.round = b.rtt
	if b.dataBefore > 0 && !b.held {
		b.round = max(b.rtt, repairBusy)
	}
	b.rate, b.burst = b.window/b.round.Seconds(), b.window
}

// takes takes what a repair of e needs, if it is there: for history only of what is full but for most bytes.
func (b *repairBudget) takes(now Instant, e *windowSlot, history bool, most int) bool {
	b.tick(now)
	size, keepWindow, keepEarned := float64(e.size), 0, 0.0
	if history {
		keepWindow, keepEarned = int(b.burst)-most, b.depth()-float64(most)
	}
	busy := b.busy()
	switch {
	case (busy || b.held) && b.earned >= size+keepEarned:
		b.earned, b.tokens = b.earned-size, max(0, b.tokens-size)
	case (!busy || history) && b.takeAbove(now, int(e.size), keepWindow):
		b.earned = max(0, b.earned-size)
	default:
		b.short = true
		return false
	}
	b.repaired++
	if e.repairedAt != 0 {
		b.repeated++
	}
	return true
}

// due is when size bytes are there for a repair, or no data was sent for a round: for history when all is there but
// for most bytes.
func (b *repairBudget) due(size int, history bool, most int) Instant {
	if history {
		size += int(b.burst) - most
	}
	at := Never
	if history || !b.busy() {
		at = b.tokenBucket.due(size)
	}
	if b.busy() {
		at = min(at, b.began.Add(b.round))
	}
	return at
}

// speed is what it gives at present, in bytes a second.
func (b *repairBudget) speed() float64 {
	if b.busy() {
		return max(b.data, b.dataBefore, float64(b.packet)) / b.round.Seconds()
	}
	return b.window / b.round.Seconds()
}
