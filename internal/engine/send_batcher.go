package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// batcher decides when the messages that a bus publishes leave. One serves all
// publications: how busy publishers are is told by all that they do, not by what they
// do in one group. Who publishes on many topics in turn is rarely seen in each group,
// and is not idle.
//
//	┌──────┐   messages come closer than half a send's time   ┌──────┐
//	│ idle │ ───────────────────────────────────────────────► │ busy │
//	│      │ ◄─────────────────────────────────────────────── │      │
//	└──────┘   messages come further apart                    └──────┘
//	each message leaves                                        │    ▲
//	at once                      saturatedSends sends in a row │    │ a pause of
//	                                                           ▼    │ loopPark
//	                                                      ┌───────────┐
//	                                                      │ saturated │
//	                                                      └───────────┘
//
// While a bus is busy its messages wait in open trains. A train leaves when it is full,
// on Flush, or when its first message has waited for linger. Publishers look on their
// way for trains that have; the loop does it when they stop. A saturated bus sends
// again and again: its publishers do all that is due on their way, and the loop looks
// after them once in loopPark.
//
// Messages of different groups share no train. For a short burst of them it is quickest to
// send each at once; so they wait only once the bus has been busy for severalAfter, and
// then no longer than sends take their share of the time, unless they fill their trains.
//
// Messages that come closer than half a send's time behind a send, but further apart than a send takes, keep a
// pace that sends can follow: they leave at once as well (mostEarly).
//
// In a tight loop a short pause is a hiccup, and the train goes on behind it (spacing).
//
// To write a large message takes a while, which is no pause of its publisher: it counts for that much.
//
// What a publisher sends meanwhile by another loop, or another bus, is no pause (elsewhere).
//
// It keeps no clock: now is an argument.
type batcher struct {
	flushAfter time.Duration // Config.FlushAfter
	least      time.Duration // that a send counts as
	every      time.Duration // sends of a busy bus begin at least so far apart

	due atomic.Int64 // when the first open train has waited for linger; Never if none is open

	mu       sync.Mutex // of what follows: publishers of different groups ask
	open     []waiting  // publications with open trains, from head on, the oldest first
	head     int
	cost     time.Duration    // of one send call, smoothed
	active   reliable.Instant // the last decision, or the end of the last send
	decided  reliable.Instant // the last decision
	spacing  spacing          // of messages
	sent     reliable.Instant // the end of the last send
	began    reliable.Instant // the beginning of the last send that a publisher made
	interval time.Duration    // between sends of an idle bus, smoothed; a busy one counts as 0
	load     load             // what part of the time sends take
	idle     reliable.Instant // the last decision that the bus is idle, of idleAfter in a row
	idles    int              // such decisions in a row
	early    int              // messages in a row that came close behind a send and left at once
	full     int              // trains in a row that left because they were full, likewise
	lastFull bool             // so did the last one
	last     *Publication     // that asked last
	wait     time.Duration    // how long trains wait that are filled at once, by what they held
	row      sendRow
	elsewhere
	_ [8]byte // so that those of several buses share no cache line (TestBusesShareNoLine)
}

// waiting is a publication with an open train, whose first message came at since.
type waiting struct {
	p     *Publication
	since reliable.Instant
}

const (
	// idleAfter is how many messages in a row that come further apart make a bus idle that
	// was busy. Single ones are hiccups of the processor.
	idleAfter = 16
	// startSendCost is assumed of a send until some were measured.
	startSendCost = 5 * time.Microsecond
	// minSendCost keeps messages together where sending costs next to nothing: to look
	// whether to send costs something, too.
	minSendCost = time.Microsecond
	// writtenInANs is how many bytes of messages a publisher is taken to make and write in a nanosecond.
	writtenInANs = 2
	// signedApart is how far apart a publisher that signs sends, from the beginning of one send to that of the
	// next: each costs each receiver some 50 µs to verify, and one may hear several publishers. So in one group there are
	// 10,000 sends a second at most (docs/protocol.md §29.7). What comes closer waits for others for as long as to sign and
	// to send leave of it. signedSendCost is what each send is taken to cost, so that messages which come that close wait.
	signedApart    = 100 * time.Microsecond
	signedSendCost = 2 * signedApart
	// maxEarly is how many messages in a row may come close behind a send and leave at
	// once, of a bus that is mostly idle: it may only have been held up for a moment,
	// and to have the loop woken for what waits costs more.
	maxEarly = 4
	// maxEarlyPaced is the same where messages come further apart than a send takes, so that sends
	// can follow, but not by half of one: a publisher that keeps a pace, and to which a send leaves
	// little time. The next one waits for the one behind it, by which spacing tells whether it is still so.
	maxEarlyPaced = 16
	// severalAfter is how long a bus is busy before messages of different groups wait for
	// others: a publisher that was held up for a moment has sent what is due by then.
	severalAfter = 2 * time.Millisecond
	// sendShare bounds what sends take where several trains are filled at once: one part in
	// so many of the time. Each waits as long as that takes.
	sendShare = 2
	// severalLinger is how long they wait at most, unless sends take longer: in a tight
	// loop each then leaves nearly full. They wait longer if they held one part in
	// worthwhile of what fits when they left, and less if they held one packet: then
	// waiting does not pay.
	severalLinger = 2 * time.Millisecond
	worthwhile    = 8
)

func newBatcher(flushAfter time.Duration) *batcher {
	b := &batcher{flushAfter: flushAfter, cost: startSendCost, least: minSendCost, spacing: spacing{apart: startSendCost}, load: load{apart: loadMost * startSendCost}}
	b.due.Store(int64(reliable.Never))
	return b
}

// signs says that what is sent is signed.
func (b *batcher) signs() {
	b.every, b.least = signedApart, signedSendCost
}

// measuredCost is what a send call takes, smoothed.
func (b *batcher) measuredCost() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cost
}

func (b *batcher) sendCost() time.Duration { return max(b.cost, b.least) }

// leaves reports whether the train of p that n messages were added to since p
// looked last, of about size bytes each, leaves now. first says that it held nothing before. passed is asked where
// the answer depends on it: whether other publications let that many messages pass since
// they looked last.
func (b *batcher) leaves(now reliable.Instant, p *Publication, n uint64, size int, first bool, passed func(open []waiting, many uint64) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn := b.last != p
	b.last = p
	gap, near := now.Sub(b.active), b.sendCost()/2
	pause := b.elsewhere.pause(now, gap, near)
	each := near + time.Duration(size/writtenInANs)
	few := each * time.Duration(n)
	if gap > few {
		gap = pause
	}
	paused := gap > few && !passed(b.open[b.head:], uint64((gap-few+near-1)/near))
	hiccup := paused && gap < min(b.flushAfter, mostHiccup) && b.spacing.tight(each)
	if b.decided > b.sent { // no send lay between
		apart := gap / time.Duration(n)
		if !paused {
			apart = min(apart, near)
		}
		b.spacing.note(apart, b.sendCost())
	}
	b.active, b.decided = max(b.active, now), max(b.decided, now)
	if paused && !hiccup {
		if b.idles++; b.idles >= idleAfter {
			b.idle = now
		}
		b.early = 0
		b.schedule()
		return true
	}
	b.idles = 0
	if first && turn && now.Sub(b.idle) < severalAfter {
		return true
	}
	if first && b.early < b.mostEarly() {
		b.spacing.behind(gap, near)
		b.early++
		return true
	}
	return false
}

// mostEarly is how many messages in a row may come close behind a send and leave at once. Under mu.
func (b *batcher) mostEarly() int {
	switch cost := b.sendCost(); {
	case b.spacing.paced(cost):
		return maxEarlyPaced
	case b.interval > 2*cost:
		return maxEarly
	}
	return 0
}

// sending notes a send that a publisher makes at now, because the bus is idle or
// somebody asked for it (idle), or of what it was busy with all along. held says that
// flow control had held it up.
func (b *batcher) sending(now reliable.Instant, idle, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	between := time.Duration(0)
	if idle {
		between = min(now.Sub(b.began), 4*b.sendCost())
	}
	b.interval += (between - b.interval) / 8
	b.began = now
	b.row.sending(now, idle, held)
}

// left notes what was sent: all that was open, or a full train.
func (b *batcher) left(full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lastFull = full; full {
		b.full = min(b.full+1, 2*saturatedSends)
	} else {
		b.full = max(0, b.full-pausePrice)
	}
}

// overdue notes that a train has waited for linger: it holds so many packets of the most
// that fit. If they are many its publishers did not pause: they take their time to fill
// a train, or were not running for a while.
func (b *batcher) overdue(packets, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.fillsSeveralLocked():
	case packets > 1 && packets*worthwhile >= most:
		b.wait = min(2*max(b.wait, b.flushAfter), severalLinger)
	case packets <= 1:
		b.wait /= 2
	}
	if packets >= max(2, most/2) { // one may have just been begun
		b.full = max(0, b.full-pausePrice)
		return
	}
	b.full = 0
}

// took notes that the transport took a train, between begin and end, and whether new data was in it.
func (b *batcher) took(begin, end reliable.Instant, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.elsewhere.took(end)
	// Being preempted in between is no cost of sending.
	b.cost += (min(end.Sub(begin), 2*b.cost) - b.cost) / 8
	b.load.took(begin, b.cost)
	b.sent, b.active = max(b.sent, end), max(b.active, end)
	if fresh {
		b.row.last = max(b.row.last, end)
	}
}

// linger is how long the first message of a train waits for others: FlushAfter, or what a send leaves
// of the time from one to the next where they are signed. It is
// loopPark where trains leave because they are full, for single messages now and then,
// where the publisher did not run for a while, are no reason to wake the loop for each
// train; and severalLinger where several trains are filled at once.
func (b *batcher) linger() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lingerLocked()
}

func (b *batcher) lingerLocked() time.Duration {
	switch {
	case b.fillsSeveralLocked():
		return max(b.flushAfter, b.wait, time.Duration(len(b.open)-b.head)*sendShare*b.sendCost())
	case b.full >= saturatedSends:
		return max(b.flushAfter, loopPark)
	}
	return max(b.flushAfter, b.every-b.cost)
}

// pressed reports whether sends take more than half of the time.
func (b *batcher) pressed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.load.apart < 2*b.cost
}

// fillsSeveral reports whether several trains are filled at once, for a while.
func (b *batcher) fillsSeveral() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fillsSeveralLocked()
}

func (b *batcher) fillsSeveralLocked() bool {
	return len(b.open)-b.head > 1 && b.active.Sub(b.idle) >= severalAfter
}

// sends is the row of sends as of now.
func (b *batcher) sends() sendRow {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.row
}

// opened notes that p has a train open since then.
func (b *batcher) opened(p *Publication, since reliable.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.waits {
		return
	}
	p.waits = true
	if b.head > 0 && len(b.open) == cap(b.open) {
		n := copy(b.open, b.open[b.head:])
		clear(b.open[n:])
		b.open, b.head = b.open[:n], 0
	}
	b.open = append(b.open, waiting{p, since})
	for i := len(b.open) - 1; i > b.head && b.open[i-1].since > since; i-- {
		b.open[i-1], b.open[i] = b.open[i], b.open[i-1]
	}
	b.schedule()
}

// next takes the publication whose train has waited for linger at now, if there is one.
func (b *batcher) next(now reliable.Instant) *Publication {
	if int64(now) < b.due.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.schedule()
	if int64(now) < b.due.Load() {
		return nil
	}
	p := b.open[b.head].p
	p.waits = false
	b.open[b.head] = waiting{}
	b.head++
	b.schedule()
	return p
}

// schedule computes due. Under mu.
func (b *batcher) schedule() {
	due := reliable.Never
	if b.head < len(b.open) {
		due = b.open[b.head].since.Add(b.lingerLocked())
	}
	b.due.Store(int64(due))
}
