package driver

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// A publisher that sends again and again without a pause is in full flight. It
// reads replies and beats the heart on its way, and needs nobody to do so at a set
// time: the loop leaves the processor to it, and looks after it once in
// flightPatience. When it stops, its last heartbeat is that late at most; and so
// are its last messages, if it has filled train after train and does not call
// Flush.
//
// Each look would cost more than it seems: on a virtual machine a timer for the
// near future is a call to the hypervisor, 8 µs where it was measured. And as long
// as a goroutine blocks in a system call, as in Transport.Wait, the Go scheduler's
// monitor looks every 20 µs whether to take its P away, with a timer each: at
// rest the loop is parked instead.
const (
	// flightSends is how many sends in a row it takes: of full trains some 8 MB, so
	// that what the last messages may wait is little beside what they have waited
	// behind.
	flightSends    = 128
	flightPatience = time.Millisecond
	// steadyGap is how close sends come, if they are not full trains: NAKs are
	// read with them.
	steadyGap = 2 * repliesEvery
	// pausePrice is how many sends a longer gap takes back.
	pausePrice = 8
)

// sending counts sends in a row, before one at now: of all that is open, or of
// full packets only. A short pause now and then, or one in which subscribers held
// it up, counts against the publisher and does not end its flight. Under mu.
func (p *Publication) sending(now reliable.Instant, all, held bool) {
	switch gap := now.Sub(p.lastSend); {
	case gap < steadyGap, gap < flightPatience && !all:
		p.steady = min(p.steady+1, 2*flightSends)
	case gap < flightPatience, held:
		p.steady = max(0, p.steady-pausePrice)
	default:
		p.steady /= 2
	}
	p.paused = false
}

// patience is how long the oldest message in o may wait for company. Single
// messages now and then, where the publisher did not run for a while, are no reason
// to wake the loop for each train again.
func (p *Publication) patience(o *open) time.Duration {
	if o.fulls >= flightSends {
		return max(p.l.cfg.FlushAfter, flightPatience)
	}
	return p.l.cfg.FlushAfter
}

// overdue notes that messages have waited for company as long as they may, where a
// train has room for most packets. If there are many the publisher did not pause:
// it takes its time to fill a train, or was not running for a while. Under mu.
func (o *open) overdue(most int) {
	if int(o.w.Begun()-o.w.Sealed()) >= max(2, most/2) { // one may have just been begun
		o.fulls = max(0, o.fulls-pausePrice)
		return
	}
	o.fulls = 0
}

// inFlight reports whether a publisher does what is due. Under mu.
func (p *Publication) inFlight() bool {
	return p.s.Blocked() == reliable.ReasonNone && p.steadily()
}

// steadily is inFlight for who is not held up, or about to go on. Under mu.
func (p *Publication) steadily() bool {
	return p.steady >= flightSends && !p.paused && !p.busy && p.seizeAt == 0
}

// mayRest reports whether nothing can come that would have to be seen at once:
// nothing is subscribed to, and all publications are in full flight.
func (l *Loop) mayRest() bool {
	for _, g := range l.groups {
		if g != nil {
			return false
		}
	}
	for _, p := range l.publications() {
		if !p.flies {
			return false
		}
	}
	return true
}

// attend ends the loop's rest, for one who waits for what it will read.
func (l *Loop) attend() {
	if l.resting.Load() {
		l.wakeBy(0)
	}
}

// rest waits for wake, outside of the transport.
func (l *Loop) rest(wait time.Duration) {
	l.alarm.Reset(wait)
	select {
	case <-l.alarm.C:
	case <-l.nudge:
	}
}

// wake ends the loop's sleep, wherever it sleeps.
func (l *Loop) wake() {
	if !l.resting.Load() {
		l.t.Wake()
		return
	}
	select {
	case l.nudge <- struct{}{}:
	default:
	}
}
