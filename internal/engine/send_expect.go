package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// When more data is expected in a group: until then it need not be said that there is none
// (docs/protocol.md §5.2).

// expect tells the stream when the trains that are open now will have been sent; or, of a bus whose sends take
// most of its time, when the next message comes if they go on as they came. To follow each message of many groups with
// a heartbeat would have messages of other groups wait. Under mu.
func (p *Publication) expect() {
	last := p.open.opened
	switch {
	case last != 0:
		last = last.Add(p.l.batcher.linger())
	case p.l.batcher.pressed():
		last = p.rhythm.next()
	}
	p.s.Expect(last)
}

// rhythm is how far apart trains of new data of a publication are sent, and how evenly. Under Publication.mu.
type rhythm struct {
	last    reliable.Instant // when one had been sent
	between time.Duration    // smoothed
	off     time.Duration    // how much a distance differs from that, smoothed
}

const (
	// rhythmShare is the weight of the past in what is smoothed: 7 in 8.
	rhythmShare = 8
	// mostRhythm is how far apart they may be for one to be expected: when they end, the loss of the last is found twice
	// as late.
	mostRhythm = 2 * time.Millisecond
	// aPause is how many times as long as usual a distance counts at most: one pause ends no rhythm. leastPause is what
	// counts in any case.
	aPause     = 4
	leastPause = 100 * time.Microsecond
	// evenIn is which part of the distance they may be off.
	evenIn = 2
)

// newRhythm is that of a publication that has not sent yet.
func newRhythm() rhythm { return rhythm{between: 2 * mostRhythm} }

// sent notes what had been sent at now.
func (r *rhythm) sent(now reliable.Instant) {
	d := min(now.Sub(r.last), max(aPause*r.between, leastPause), 2*mostRhythm)
	r.off += ((d - r.between).Abs() - r.off) / rhythmShare
	r.between += (d - r.between) / rhythmShare
	r.last = now
}

// next is when the next will have been sent, if they come in a rhythm: else 0.
func (r *rhythm) next() reliable.Instant {
	if r.between > mostRhythm || r.off > r.between/evenIn {
		return 0
	}
	return r.last.Add(2 * r.between)
}
