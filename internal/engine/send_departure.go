package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// departure decides when the messages that a bus publishes leave. A bus has one, for all its groups: a goroutine that
// publishes on many groups in turn is rarely seen in each of them, and is not idle.
//
//	┌──────┐  busyAfter messages in a row, each close behind   ┌──────┐
//	│ idle │ ────────────────────────────────────────────────► │ busy │
//	│      │ ◄──────────────────────────────────────────────── │      │
//	└──────┘  a few pauses, or trains that hold little         └──────┘
//
// While a bus is idle each message leaves at once, sent by the goroutine that publishes it. While it is busy
// messages wait in open trains. A train leaves when it is full, on Flush, or when its first message has waited for
// linger: the next publisher of its group sends it, or the loop.
//
// A message is close behind if no publisher of the process has paused since the last one of the bus, for longer
// than half the time of a send: a goroutine that publishes by several buses in turn is idle at none of them.
//
// The publishers of a bus that sends again and again do what is due by themselves, and the loop looks every loopPark.
//
// It keeps no clock: now is an argument.
type departure struct {
	flushAfter time.Duration // Config.FlushAfter
	apart      time.Duration // sends of a bus that signs begin at least so far apart
	zero       time.Duration // of the bus's clock, behind the process's

	mu     sync.Mutex
	paused int64            // of the process, when a publisher of the bus came last
	quiet  time.Duration    // by how much that was more than the time before
	cost   time.Duration    // of a send, smoothed
	steps  int              // from busyAfter on the bus is busy; at half as much again its trains hold much
	open   int              // publications with an open train
	sent   reliable.Instant // the end of the last send of new data
	row    int              // sends of new data without a pause
	_      [40]byte         // so that those of several buses share no cache line (TestBusesShareNoLine)
}

// process is what all buses of the process share: when a publisher was last at work, in nanoseconds since epoch,
// and how long in all none was. Where one writes what another has just read a pause is lost.
var process struct {
	_              [64]byte
	active, paused atomic.Int64
	_              [64]byte
}

// epoch is what all buses of the process can count from.
var epoch = time.Now()

const (
	// minSendCost is what a send counts as at least: the decision takes some 100 ns as well.
	minSendCost = time.Microsecond
	// busyAfter is how many messages in a row come close behind before messages wait. A pause takes a quarter of it
	// back, a train that held little a half: so a goroutine in a tight loop that loses its processor for a moment goes
	// on filling trains. With all of it taken back by one pause trains of 64 byte messages held 620, not 860 (of 920).
	busyAfter = 16
	// signedApart is how far apart a publisher that signs sends, from the beginning of one send to that of the next: each
	// costs each receiver some 50 µs to verify (docs/protocol §29.7).
	signedApart = 100 * time.Microsecond
	// rowSends is how many sends in a row, each within rowPause of the one before, it takes until the loop leaves a
	// bus to its publishers. Data is followed by a heartbeat after 100 µs: at 5,000 messages/s the loop would be woken
	// for each, and often hold the lock when the next one is published (p50 88 µs for 58).
	rowSends = 128
	rowPause = 250 * time.Microsecond
	// loopPark is how long the loop leaves such a bus alone. Where it woke for each train one goroutine over four buses
	// published 1.1 M messages/s, not 6 M. Where several trains are open that hold much they wait for twice as long.
	loopPark = time.Millisecond
)

func newDeparture(flushAfter time.Duration, signs bool, c clock) *departure {
	d := &departure{flushAfter: flushAfter, cost: minSendCost, zero: c.start.Sub(epoch), paused: process.paused.Load()}
	if signs {
		d.apart = signedApart
	}
	return d
}

// sendCost is what a send takes, smoothed.
func (d *departure) sendCost() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cost
}

// near is how close behind a message or a send is close. Under mu.
func (d *departure) near() time.Duration { return max(d.cost, minSendCost) / 2 }

// came notes that a publisher has come at now.
func (d *departure) came(now reliable.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := int64(d.zero) + int64(now)
	all := process.paused.Load()
	if gap := time.Duration(at - process.active.Load()).Abs(); gap > d.near() {
		all += int64(gap)
		process.paused.Store(all)
	}
	process.active.Store(at)
	d.quiet, d.paused = time.Duration(all-d.paused), all
}

// did notes that the publisher that came was at work until now: that is no pause.
func (d *departure) did(now reliable.Instant) { process.active.Store(int64(d.zero) + int64(now)) }

// atOnce reports whether the message that came at now, the first of its train, leaves at once.
func (d *departure) atOnce(now reliable.Instant) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.apart > 0:
		return now.Sub(d.sent) > d.apart
	case d.quiet > d.near()*time.Duration(1+d.open): // of messages that are added to open trains only few are seen
		d.steps = max(0, d.steps-busyAfter/4)
		return d.steps < busyAfter || d.quiet > min(d.flushAfter, rowPause)
	}
	busy := d.steps >= busyAfter
	d.steps = min(d.steps+1, 2*busyAfter)
	return !busy
}

// full notes that a train has left because it was full.
func (d *departure) full() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = 2 * busyAfter
}

// overdue records that a train of so many messages leaves because it has waited for linger. If they did not come
// close, as far as that shows, the bus is less busy.
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

// took notes that the transport took a train, between begin and end, and whether new data was in it.
func (d *departure) took(begin, end reliable.Instant, fresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cost += (min(end.Sub(begin), 2*d.cost) - d.cost) / 8 // to be preempted in between is no cost of sending
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

// opened notes that so many more publications have an open train.
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

// linger is how long the first message of a train waits for others: FlushAfter, or longer where several trains are
// open that hold much, or where they are signed.
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

// loopDue is when the loop sends a train that was opened then, if no publisher has: where the loop leaves them
// alone they do that on their way.
func (d *departure) loopDue(opened reliable.Instant) reliable.Instant {
	d.mu.Lock()
	defer d.mu.Unlock()
	due := opened.Add(d.lingerLocked())
	if d.row >= rowSends && d.steps >= busyAfter {
		due = max(due, d.sent.Add(loopPark))
	}
	return due
}

// parked is until when the loop leaves the bus to its publishers; saturated says whether it does.
func (d *departure) parked() (until reliable.Instant, saturated bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent.Add(loopPark), d.row >= rowSends
}
