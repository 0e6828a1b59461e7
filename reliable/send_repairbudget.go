package reliable

import (
	"math/bits"
	"time"
)

// RepairBudget limits the repairs of a bus. Its senders share it, in equal parts if several have something to repair.
// While one of them sends data, repairs of losses take a share of that data. Otherwise they take a window each round
// trip, as history for late joiners always does. The window is one burst. Without data it doubles after each round trip
// that used it up while no packet was requested again, like TCP's window in slow start (RFC 9293 §3.8.2). docs/protocol
// §6.11.
type RepairBudget struct {
	lock        locker
	tokenBucket         // the window's bytes
	share       float64 // of the data
	earned      float64 // bytes that data has earned
	packet      int

	window             float64       // bytes per round trip
	rtt                time.Duration // of the most distant receiver that asked; rises at once, at most halves per round
	round              time.Duration // length of the present round
	began, beganBefore Instant       // start of the present round, and of the one before

	data, dataBefore       int // bytes of data in the present round, and in the one before
	flowing, flowingBefore int // of these, bytes of senders that flow control does not hold back
	repaired, lastRepaired int // packets repaired in the present round, and in the one before
	again, repeated        int // packets requested, and packets repaired, that had been repaired before
	refetched              int // of history repaired before for another receiver
	slowest                time.Duration
	short                  bool // a repair waited for the budget in this round
	calm                   int  // consecutive round trips without a waiting repair

	losses, history sharers
}

// sharers counts the senders that had something to repair in the present round, and in the one before.
type sharers struct {
	now, before int
	part        float64 // total bytes that the budget has given to each of them
}

func (x *sharers) count() int { return max(x.now, x.before, 1) }

// sharing is one sender's part of the budget.
type sharing struct {
	in     Instant // start of the last round in which the sender had something to repair
	before bool    // it also had in the round before that
	part   float64 // sharers.part at the last update
	credit float64 // unused bytes of its part
	spent  bool    // it waits for more
}

// may reports whether the sender's part allows size bytes. It keeps at most limit unused bytes.
func (x *sharing) may(round, before Instant, all *sharers, size, limit int) bool {
	if x.in != round {
		x.in, x.before = round, x.in == before
		all.now++
	}
	x.credit, x.part = min(float64(limit), x.credit+all.part-x.part), all.part
	alone := all.count() == 1 && (x.before || all.before == 0)
	x.spent = !alone && x.credit < float64(size)
	return !x.spent
}

func (x *sharing) took(size int) { x.credit = max(0, x.credit-float64(size)) }

// locker is sync.Locker.
type locker interface {
	Lock()
	Unlock()
}

// noLock is for senders that run on one goroutine.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// NewRepairBudget returns the budget of a bus, for senders with the same RepairShare and packet size. They hold lock
// while they use it.
func NewRepairBudget(lock locker) *RepairBudget { return &RepairBudget{lock: lock} }

// repairAccount is a sender's account in the budget of its bus. It collects the sender's activity between repairs, so
// that a train of data does not lock the budget.
type repairAccount struct {
	bus *RepairBudget

	// Not yet in the budget: bytes of data sent; requested packets that had been repaired before; the longest round trip
	// of the receivers that asked.
	data    int
	again   int
	slowest time.Duration

	// The sender's part of the budget's flowing and flowingBefore, in the round that began at began.
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

// asked records the round trip of a receiver that requests packets.
func (a *repairAccount) asked(rtt time.Duration) { a.slowest = max(a.slowest, rtt) }

// add passes the sender's activity to the budget. held: flow control holds the sender's data back, so that repairs do
// not wait for its earlier data.
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

// advance moves the account to the budget's present round.
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

// takes takes the bytes for a repair of e if they are available. History is repaired only while a bucket is full but
// for allowance bytes for each sender that fetches.
func (a *repairAccount) takes(now Instant, e *windowSlot, held, history bool, allowance int) bool {
	a.bus.lock.Lock()
	defer a.bus.lock.Unlock()
	a.addLocked(now, held)
	b := a.bus
	x, all, part := &a.losses, &b.losses, max(allowance, int(max(b.depth(), b.window)))
	if history {
		x, all, part = &a.history, &b.history, allowance
	}
	if !x.may(b.began, b.beganBefore, all, int(e.size), part) || !b.takes(now, e, held, history, allowance*all.count()) {
		return false
	}
	x.took(int(e.size))
	return true
}

// due is when size bytes are available for a repair, or a round without data has passed. History needs a bucket that is
// full but for allowance bytes.
func (a *repairAccount) due(size int, history bool, allowance int) Instant {
	a.bus.lock.Lock()
	defer a.bus.lock.Unlock()
	if b := a.bus; history && a.history.spent || !history && a.losses.spent {
		return b.began.Add(b.round)
	}
	return a.bus.due(size, history, allowance*a.bus.history.count())
}

// speed is the present rate of repairs in bytes a second.
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

// start is the initial window of a round trip: one burst.
func (b *RepairBudget) start() float64 { return float64(max(repairBurst, b.packet)) }

// spent records bytes of data sent.
func (b *RepairBudget) spent(bytes int) {
	b.data += bytes
	b.earned = min(b.depth(), b.earned+b.share*float64(bytes))
	b.losses.part += b.share * float64(bytes) / float64(b.losses.count())
	b.history.part += b.share * float64(bytes) / float64(b.history.count())
}

// depth is how many earned bytes may be saved.
func (b *RepairBudget) depth() float64 {
	return max(b.start(), b.share*float64(max(b.data, b.dataBefore)))
}

// busy reports whether the bus sent data in the present round or in the one before.
func (b *RepairBudget) busy() bool { return b.flowing+b.flowingBefore > 0 }

// tick refills the budget, and begins a new round if the present one is over.
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
	if b.short && 2*b.repeated > b.repaired { // the repairs fill a queue on the path, or are not needed
		b.rtt = max(b.rtt, min(2*before, maxRetry))
	}
	b.beganBefore, b.began = b.began, now
	b.dataBefore, b.flowingBefore, b.lastRepaired = b.data, b.flowing, b.repaired
	fetched := 2*b.refetched > b.repaired // by one receiver after another, or by one under many ids
	b.losses.before, b.history.before, b.losses.now, b.history.now = b.losses.now, b.history.now, 0, 0
	b.data, b.flowing, b.repaired, b.again, b.repeated, b.refetched, b.slowest, b.short = 0, 0, 0, 0, 0, 0, 0, false
	b.round = b.rtt
	if b.flowingBefore > 0 || fetched {
		b.round = max(b.rtt, repairBusy)
	}
	b.rate, b.burst = b.window/b.round.Seconds(), b.window
}

func (b *RepairBudget) takes(now Instant, e *windowSlot, held, history bool, allowance int) bool {
	size, keepWindow, keepEarned := float64(e.size), 0, 0.0
	if history {
		keepWindow, keepEarned = max(0, int(b.burst)-allowance), max(0, b.depth()-float64(allowance))
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
	case history && !e.again: // other joiners have fetched the same history
		b.refetched++
	default:
		b.repeated++
	}
	return true
}

func (b *RepairBudget) due(size int, history bool, allowance int) Instant {
	if history {
		size += max(0, int(b.burst)-allowance)
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

// Repairs wait in queues that take turns, packet by packet: one for packets never repaired, for any receiver, and one
// for each member, or for several if there are many. A packet may wait in several queues, and is sent once. So a
// receiver that requests more than the budget allows, because its link loses everything or because it is hostile,
// delays no other. docs/protocol §6.6.
const (
	firstsQueue    = 0 // packets never repaired
	strangersQueue = 1 // for non-members
	joinersQueue   = 2 // for receivers that fetch history: served when all others are empty
	memberQueues   = 3 // the first queue of members
	repairQueues   = 32
)

// repairQueue passes through the window in rounds, the oldest packet first. Packets requested behind its position wait
// for the next round, so that all get their turn. Sender.win.index records which packets are in it.
type repairQueue struct {
	count int
	at    uint64 // where the round continues
	under uint64 // lowest packet below at, for the next round; noSeq if none
	begun bool   // the round has repaired a packet
}

const noSeq = 1<<64 - 1

// add adds a packet.
func (q *repairQueue) add(seq uint64) {
	switch {
	case q.count == 0:
		q.at, q.under, q.begun = seq, noSeq, false
	case seq >= q.at:
	case q.begun:
		q.under = min(q.under, seq)
	default:
		q.at = seq
	}
	q.count++
}

// find moves the queue's position to its next packet and returns it.
func (q *repairQueue) find(w *sendWindow, queue uint32) (seq uint64, ok bool) {
	for range 2 {
		for q.at = max(q.at, w.trail); q.at < w.sent; q.at++ {
			if w.at(q.at).queues&queue != 0 {
				return q.at, true
			}
		}
		q.at, q.under, q.begun = q.under, noSeq, false
	}
	return 0, false
}

// queue adds a packet to those of the queues, a set of bits, in which it does not wait yet.
func (r *repairs) queue(e *windowSlot, seq uint64, queues uint32) {
	if e.queues == 0 {
		r.count++
	}
	queues &^= e.queues
	e.queues |= queues
	r.active |= queues
	for ; queues != 0; queues &= queues - 1 {
		r.queues[bits.TrailingZeros32(queues)].add(seq)
	}
}

// unqueue removes a packet from all queues.
func (r *repairs) unqueue(e *windowSlot) {
	if e.queues == 0 {
		return
	}
	r.count--
	for q := e.queues; q != 0; q &= q - 1 {
		i := bits.TrailingZeros32(q)
		if r.queues[i].count--; r.queues[i].count == 0 {
			r.active &^= 1 << i
		}
	}
	e.queues, e.again = 0, false
}

// turnOf returns the next queue in turn that has packets.
func (r *repairs) turnOf() (queue int, ok bool) {
	all := r.active &^ (1 << joinersQueue)
	if all == 0 {
		all = r.active
	}
	q := all &^ (1<<(r.turn+1) - 1)
	if q == 0 {
		q = all
	}
	return bits.TrailingZeros32(q), q != 0
}

// lowest returns a sequence below which no packet is queued.
func (r *repairs) lowest(w *sendWindow) uint64 {
	low := w.sent
	for q := r.active; q != 0; q &= q - 1 {
		x := &r.queues[bits.TrailingZeros32(q)]
		low = min(low, x.at, x.under)
	}
	return max(low, w.trail)
}
