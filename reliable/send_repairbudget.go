package reliable

import "time"

// RepairBudget limits the repairs of a bus: its senders share one, in equal parts where several have something to
// repair. While one of them sends data, repairs of losses take a share of that data and no more. Otherwise they take a
// window each round trip, as history for late joiners always does: one burst, and, where no data is sent, twice as
// much after each round trip that used it up while no packet was requested again, as TCP's window after a start (RFC
// 9293 §3.8.2). docs/protocol §6.11.
type RepairBudget struct {
	lock        locker
	tokenBucket         // the window's bytes
	share       float64 // of data
	earned      float64 // bytes, by data
	packet      int

	window             float64       // bytes a round trip
	rtt                time.Duration // of the farthest of those that asked; it rises at once and falls by half
	round              time.Duration // how long the round is
	began, beganBefore Instant       // the round, and the one before

	data, dataBefore       int // bytes of data in this round, and in the one before
	flowing, flowingBefore int // of those, from senders that flow control does not hold back
	repaired, lastRepaired int // packets repaired
	again, repeated        int // packets asked for, and repaired, that had been repaired before
	refetched              int // repaired before, for another receiver that fetched history
	slowest                time.Duration
	short                  bool // a repair had to wait in this round
	calm                   int  // round trips in a row in which none had to

	losses, history sharers
}

// sharers counts the senders that have something to repair in a round, and in the one before.
type sharers struct {
	now, before int
	part        float64 // bytes that the budget gave for each of them, so far
}

func (x *sharers) count() int { return max(x.now, x.before, 1) }

// sharing is a sender's place among them.
type sharing struct {
	in     Instant // the last round in which it had something to repair
	before bool    // and in the one before
	part   float64 // sharers.part as of then
	credit float64 // bytes of its part that it has not taken
	spent  bool    // it waits for more of it
}

// may reports whether size bytes are left of the sender's part: most at most are kept.
func (x *sharing) may(round, before Instant, all *sharers, size, most int) bool {
	if x.in != round {
		x.in, x.before = round, x.in == before
		all.now++
	}
	x.credit, x.part = min(float64(most), x.credit+all.part-x.part), all.part
	alone := all.count() == 1 && (x.before || all.before == 0)
	x.spent = !alone && x.credit < float64(size)
	return !x.spent
}

func (x *sharing) took(size int) { x.credit = max(0, x.credit-float64(size)) }

// locker is what sync.Locker is.
type locker interface {
	Lock()
	Unlock()
}

// noLock is the lock of senders that run on one goroutine.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// NewRepairBudget returns the budget of a bus, for senders with the same share and packet size. They hold lock while
// they use it.
func NewRepairBudget(lock locker) *RepairBudget { return &RepairBudget{lock: lock} }

// repairAccount is a sender's part in the budget of its bus. It collects what the sender does between repairs, so
// that a train of data does not lock the budget.
type repairAccount struct {
	bus *RepairBudget

	// Not yet in the budget: bytes of data sent, packets asked for that had been repaired, the longest round trip of
	// the receivers that asked.
	data    int
	again   int
	slowest time.Duration

	// What the budget counts as flowing from this sender, in its round that began then.
	flowing, flowingBefore int
	began                  Instant

	losses, history sharing
}

func (a *repairAccount) init(b *RepairBudget, share float64, packet int, now Instant) {
	a.bus = b
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.window == 0 {
		b.init(share, packet, now)
	}
}

// asked notes that a receiver at a round trip has asked for something.
func (a *repairAccount) asked(rtt time.Duration) { a.slowest = max(a.slowest, rtt) }

// add adds what the sender did to the budget. held says that flow control holds the sender's data back: what it sent
// before is not waited for then.
func (a *repairAccount) add(now Instant, held bool) {
	a.bus.lock.Lock()
	defer a.bus.lock.Unlock()
	a.addLocked(now, held)
}

func (a *repairAccount) addLocked(now Instant, held bool) {
	b := a.bus
	b.again += a.again
	b.slowest = max(b.slowest, a.slowest)
	if held {
		a.advance()
		b.flowing, b.flowingBefore = b.flowing-a.flowing, b.flowingBefore-a.flowingBefore
		a.flowing, a.flowingBefore = 0, 0
	}
	b.tick(now)
	b.spent(a.data)
	if !held {
		a.advance()
		a.flowing += a.data
		b.flowing += a.data
	}
	a.data, a.again, a.slowest = 0, 0, 0
}

// advance follows the budget into its present round.
func (a *repairAccount) advance() {
	switch b := a.bus; a.began {
	case b.began:
		return
	case b.beganBefore:
		a.flowing, a.flowingBefore = 0, a.flowing
	default:
		a.flowing, a.flowingBefore = 0, 0
	}
	a.began = a.bus.began
}

// takes takes what a repair of e needs, if it is there: for history only of what is full but for most bytes for each
// sender that has some.
func (a *repairAccount) takes(now Instant, e *windowSlot, held, history bool, most int) bool {
	a.bus.lock.Lock()
	defer a.bus.lock.Unlock()
	a.addLocked(now, held)
	b := a.bus
	x, all, part := &a.losses, &b.losses, max(most, int(max(b.depth(), b.window)))
	if history {
		x, all, part = &a.history, &b.history, most
	}
	if !x.may(b.began, b.beganBefore, all, int(e.size), part) || !b.takes(now, e, held, history, most*all.count()) {
		return false
	}
	x.took(int(e.size))
	return true
}

// due is when size bytes are there for a repair, or no data was sent for a round: for history when all is there but
// for most bytes.
func (a *repairAccount) due(size int, history bool, most int) Instant {
	a.bus.lock.Lock()
	defer a.bus.lock.Unlock()
	if b := a.bus; history && a.history.spent || !history && a.losses.spent {
		return b.began.Add(b.round)
	}
	return a.bus.due(size, history, most*a.bus.history.count())
}

// speed is what the budget gives at present, in bytes a second.
func (a *repairAccount) speed() float64 {
	a.bus.lock.Lock()
	defer a.bus.lock.Unlock()
	return a.bus.speed()
}

func (b *RepairBudget) init(share float64, packet int, now Instant) {
	b.share, b.packet, b.rtt, b.round, b.began = share, packet, startRTT, startRTT, now
	b.window = b.start()
	b.earned = b.window
	b.tokenBucket.init(b.window/b.rtt.Seconds(), b.window, now)
}

// start is the window that a round trip has at first: one burst.
func (b *RepairBudget) start() float64 { return float64(max(repairBurst, b.packet)) }

// spent takes in that so many bytes of data were sent.
func (b *RepairBudget) spent(bytes int) {
	b.data += bytes
	b.earned = min(b.depth(), b.earned+b.share*float64(bytes))
	b.losses.part += b.share * float64(bytes) / float64(b.losses.count())
	b.history.part += b.share * float64(bytes) / float64(b.history.count())
}

// depth is how much of what data earns can be saved.
func (b *RepairBudget) depth() float64 {
	return max(b.start(), b.share*float64(max(b.data, b.dataBefore)))
}

// busy reports whether the bus sends data: in this round or in the one before.
func (b *RepairBudget) busy() bool { return b.flowing+b.flowingBefore > 0 }

// tick takes in that it is now.
func (b *RepairBudget) tick(now Instant) {
	if filled := b.rate * now.Sub(b.at).Seconds(); filled > 0 {
		if !b.busy() {
			b.losses.part += filled / float64(b.losses.count())
		}
		b.history.part += filled / float64(b.history.count())
	}
	b.refill(now)
	if now.Sub(b.began) < b.round && (b.busy() || now.Sub(b.began) < b.rtt) {
		return
	}
	if b.calm += int(min(now.Sub(b.began)/b.round, 4)); b.short {
		b.calm = 0
	}
	switch {
	case b.calm >= 4, b.data > 0, 8*b.again > max(b.repaired, b.lastRepaired), 8*b.repeated > b.repaired:
		b.window = b.start()
	case b.again+b.repeated+b.refetched == 0 && b.short && float64(b.repaired*b.packet) >= b.window/2:
		b.window *= 2
	}
	before := b.rtt
	if b.slowest > 0 {
		b.rtt = max(minRetry, b.slowest, b.rtt/2)
	}
	if b.short && 2*b.repeated > b.repaired { // they fill a queue, or are in vain
		b.rtt = max(b.rtt, min(2*before, maxRetry))
	}
	b.beganBefore, b.began = b.began, now
	b.dataBefore, b.flowingBefore, b.lastRepaired = b.data, b.flowing, b.repaired
	fetched := 2*b.refetched > b.repaired // by one receiver after the other, or by one under many names
	b.losses.before, b.history.before, b.losses.now, b.history.now = b.losses.now, b.history.now, 0, 0
	b.data, b.flowing, b.repaired, b.again, b.repeated, b.refetched, b.slowest, b.short = 0, 0, 0, 0, 0, 0, 0, false
	b.round = b.rtt
	if b.flowingBefore > 0 || fetched {
		b.round = max(b.rtt, repairBusy)
	}
	b.rate, b.burst = b.window/b.round.Seconds(), b.window
}

func (b *RepairBudget) takes(now Instant, e *windowSlot, held, history bool, most int) bool {
	size, keepWindow, keepEarned := float64(e.size), 0, 0.0
	if history {
		keepWindow, keepEarned = max(0, int(b.burst)-most), max(0, b.depth()-float64(most))
	}
	busy := b.busy()
	switch {
	case (busy || held) && b.earned >= size+keepEarned:
		b.earned, b.tokens = b.earned-size, max(0, b.tokens-size)
	case (!busy || history) && b.takeAbove(now, int(e.size), keepWindow):
		b.earned = max(0, b.earned-size)
	default:
		b.short = true
		return false
	}
	b.repaired++
	switch {
	case e.repairedAt == 0:
	case history && !e.again: // what one joiner fetches others have fetched before
		b.refetched++
	default:
		b.repeated++
	}
	return true
}

func (b *RepairBudget) due(size int, history bool, most int) Instant {
	if history {
		size += max(0, int(b.burst)-most)
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

func (b *RepairBudget) speed() float64 {
	if b.busy() {
		return max(b.share*float64(max(b.data, b.dataBefore)), float64(b.packet)) / b.round.Seconds()
	}
	return b.window / b.round.Seconds()
}
