package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// departure decides when the messages that a bus publishes leave. A bus has one for all its groups: a goroutine that
// publishes to many groups in turn rarely comes to each of them, and is not idle.
//
//	┌──────┐  busyAfter messages in a row, each close behind   ┌──────┐
//	│ idle │ ────────────────────────────────────────────────► │ busy │
//	│      │ ◄──────────────────────────────────────────────── │      │
//	└──────┘  a few pauses, or trains that hold little         └──────┘
//
// While a bus is idle the publishing goroutine sends each message at once. While the bus is busy messages wait in open
// trains. A train leaves when it is full, on Flush, or when its first message has waited for linger. Then the next
// publisher of its group sends it, or the loop.
//
// A message is close behind the last one of the bus if no publisher of the process has paused in between for longer
// than half the time of a send. So a goroutine that publishes by several buses in turn is idle on none of them.
//
// The publishers of a bus that sends without a pause do what is due themselves, and the loop checks only every
// loopPark.
//
// departure reads no clock: now is an argument.
type departure struct {
	flushAfter time.Duration // Config.FlushAfter
	apart      time.Duration // least time between the starts of two sends of a bus that signs
	zero       time.Duration // of the bus's clock, less epoch
	all        *activity     // of all buses of the process; of this one in virtual time

	mu     sync.Mutex
	paused int64            // all.paused when a publisher of the bus last came
	quiet  time.Duration    // growth of paused at that time
	cost   time.Duration    // time of a send, smoothed
	steps  int              // from busyAfter on the bus is busy; from half as much again its trains hold much
	open   int              // publications with an open train
	sent   reliable.Instant // end of the last send of new data
	row    int              // sends of new data without a pause
	_      [32]byte         // keeps those of several buses on separate cache lines (TestBusesShareNoLine)
}

// activity is when a publisher was last active, in nanoseconds since epoch, and the total time in which none was. A
// pause is lost if two publishers write at once.
type activity struct {
	_              [64]byte
	active, paused atomic.Int64
	_              [64]byte
}

// process is shared by all buses of the process.
var process activity

// epoch is the origin of times that all buses of the process share.
var epoch = time.Now()

const (
	// minSendCost is the least cost of a send: the decision itself takes some 100 ns.
	minSendCost = time.Microsecond
	// busyAfter is how many messages in a row must be close behind before messages wait. A pause takes back a quarter of
	// them, a train that held little a half, so that a goroutine in a tight loop that loses its processor for a moment
	// still fills trains. When one pause took back all, trains held 620 messages of 64 bytes instead of 860 (of 920).
	busyAfter = 16
	// signedApart is the least time between the starts of two sends of a publisher that signs: each send costs each
	// receiver some 50 µs to verify (docs/protocol §29.7).
	signedApart = 100 * time.Microsecond
	// rowSends is how many sends in a row, each within rowPause of the one before, make the loop leave a bus to its
	// publishers. A heartbeat follows data after 100 µs: at 5,000 messages/s the loop would be woken for each, and
	// often hold the lock when the next message is published (p50 88 µs instead of 58).
	rowSends = 128
	rowPause = 250 * time.Microsecond
	// loopPark is how long the loop leaves such a bus alone. When the loop woke for each train, one goroutine over four
	// buses published 1.1 M messages/s instead of 6 M. If several open trains hold much they wait for twice as long.
	loopPark = time.Millisecond
)

func newDeparture(flushAfter time.Duration, signs bool, c clock) *departure {
	d := &departure{flushAfter: flushAfter, cost: minSendCost, zero: c.start.Sub(epoch), all: &process}
	if c.virtual != nil {
		d.all, d.zero = new(activity), 0
	}
	d.paused = d.all.paused.Load()
	if signs {
		d.apart = signedApart
	}
	return d
}

// sendCost returns the smoothed time of a send.
func (d *departure) sendCost() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cost
}

// near returns the longest gap that counts as close. Under mu.
func (d *departure) near() time.Duration { return max(d.cost, minSendCost) / 2 }

// came records that a publisher publishes at now.
func (d *departure) came(now reliable.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := int64(d.zero) + int64(now)
	all := d.all.paused.Load()
	if gap := time.Duration(at - d.all.active.Load()).Abs(); gap > d.near() {
		all += int64(gap)
		d.all.paused.Store(all)
	}
	d.all.active.Store(at)
	d.quiet, d.paused = time.Duration(all-d.paused), all
}

// did records that this publisher was active until now, so that a send is no pause.
func (d *departure) did(now reliable.Instant) { d.all.active.Store(int64(d.zero) + int64(now)) }

// atOnce reports whether the message that came at now, the first of its train, leaves at once.
func (d *departure) atOnce(now reliable.Instant) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.apart > 0:
		return now.Sub(d.sent) > d.apart
	case d.quiet > d.near()*time.Duration(1+d.open): // look sees only few of the messages that are added to open trains
		d.steps = max(0, d.steps-busyAfter/4)
		return d.steps < busyAfter || d.quiet > min(d.flushAfter, rowPause)
	}
	busy := d.steps >= busyAfter
	d.steps = min(d.steps+1, 2*busyAfter)
	return !busy
}

// full records that a train has left because it was full.
func (d *departure) full() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = 2 * busyAfter
}

// overdue records that a train of this many messages leaves because it has waited for linger. If most did not come
// close together, the bus is less busy.
func (d *departure) overdue(messages uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case time.Duration(messages)*time.Duration(d.open)*d.near() < d.lingerLocked():
		d.steps = max(0, d.steps-busyAfter/2)
	case messages >= busyAfter/2:
		d.steps = 2 * busyAfter
	default:
		d.steps = max(0, d.steps-1)
	}
}

// took records that the transport accepted a train between begin and end. fresh: it had new data.
func (d *departure) took(begin, end reliable.Instant, fresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cost += (min(end.Sub(begin), 2*d.cost) - d.cost) / 8 // bounded: time without a processor is no cost of sending
	if !fresh {
		return
	}
	switch gap := begin.Sub(d.sent); {
	case gap < rowPause:
		d.row = min(d.row+1, 2*rowSends)
	case gap < loopPark:
		d.row = max(0, d.row-rowSends/16)
	default:
		d.row /= 2
	}
	d.sent = max(d.sent, end)
}

// opened records that n more publications have an open train.
func (d *departure) opened(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open += n
}

// several reports whether more than one publication has an open train.
func (d *departure) several() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open > 1
}

// linger returns how long the first message of a train waits for others: FlushAfter, or longer if several open trains
// hold much, or if trains are signed.
func (d *departure) linger() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lingerLocked()
}

func (d *departure) lingerLocked() time.Duration {
	if d.open > 1 && d.steps >= busyAfter*3/2 {
		return max(d.flushAfter, 2*loopPark, d.apart-d.cost)
	}
	return max(d.flushAfter, d.apart-d.cost)
}

// loopDue returns when the loop sends a train that was opened at opened, unless a publisher sends it earlier. It is
// later while the loop leaves the bus to its publishers.
func (d *departure) loopDue(opened reliable.Instant) reliable.Instant {
	d.mu.Lock()
	defer d.mu.Unlock()
	due := opened.Add(d.lingerLocked())
	if d.row >= rowSends && d.steps >= busyAfter {
		due = max(due, d.sent.Add(loopPark))
	}
	return due
}

// parked returns until when the loop leaves the bus to its publishers. saturated: it does so now.
func (d *departure) parked() (until reliable.Instant, saturated bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent.Add(loopPark), d.row >= rowSends
}
