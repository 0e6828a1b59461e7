package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// sendRow is a row of sends of new data of a bus without a pause. In a long one publishers do on their way what is due, and
// the loop leaves them alone (batcher). Under batcher.mu.
type sendRow struct {
	count int              // sends, at most 2*saturatedSends
	last  reliable.Instant // the end of the last one
}

const (
	// saturatedSends is how many sends in a row it takes: of full trains some 8 MB, so
	// that what the last messages may wait is little beside what they have waited
	// behind.
	saturatedSends = 128
	// loopPark is how long the loop leaves a saturated bus alone. Each look would cost
	// more than it seems: on a virtual machine a timer for the near future is a call to
	// the hypervisor, 8 µs where it was measured. And as long as a goroutine blocks in a
	// system call, as in Transport.Wait, the Go scheduler's monitor looks every 20 µs
	// whether to take its P away, with a timer each: so the loop is parked instead.
	loopPark = time.Millisecond
	// shortPause is how close sends follow each other at most, if they are not full trains. Data is followed by a heartbeat
	// after 100 µs (docs/protocol.md §5.1): for messages that keep about such a pace the loop would be woken for each, and often
	// be at work in the publication just when the next one is published. In a row of them it is left alone. The next message tells
	// of a loss nearly as soon, and who publishes it takes the NAK.
	shortPause = 250 * time.Microsecond
	// pausePrice is how many sends a longer pause takes back.
	pausePrice = 8
)

// sending notes a send that a publisher makes at now: see batcher.sending.
//
// A short pause now and then, or one in which subscribers held the publisher up, counts
// against the row and does not end it.
func (r *sendRow) sending(now reliable.Instant, idle, held bool) {
	switch gap := now.Sub(r.last); {
	case gap < shortPause, gap < loopPark && !idle:
		r.count = min(r.count+1, 2*saturatedSends)
	case gap < loopPark, held:
		r.count = max(0, r.count-pausePrice)
	default:
		r.count /= 2
	}
}

// saturated reports whether the row is long, whatever holds the publishers up just now.
func (r sendRow) saturated() bool { return r.count >= saturatedSends }

// parked is until when the loop leaves the publishers alone, if the row is saturated: no longer where none has sent since,
// whatever the loop has.
func (r sendRow) parked() reliable.Instant { return r.last.Add(loopPark) }
