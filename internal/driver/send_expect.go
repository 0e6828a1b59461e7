package driver

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
	last := p.shared.opened
	for _, x := range p.owned {
		last = max(last, x.opened)
	}
	switch {
	case last != 0:
		last = last.Add(p.l.batcher.linger())
	case p.l.batcher.pressed():
		last = p.rhythm.next()
	}
	p.s.Expect(last)
}

// rhythm is how far apart the sends of a publication come. Under Publication.mu.
type rhythm struct {
	last  reliable.Instant // send
	apart time.Duration    // smoothed
}

const (
	// rhythmShare is the weight of the past in what is smoothed: 7 in 8.
	rhythmShare = 8
	// mostRhythm is how far apart sends may be for one to be expected: when they end, the loss of the last is found twice
	// as late.
	mostRhythm = 2 * time.Millisecond
)

// sent notes a send that ended at now.
func (r *rhythm) sent(now reliable.Instant) {
	r.apart += (min(now.Sub(r.last), 2*mostRhythm) - r.apart) / rhythmShare
	r.last = now
}

// next is when the next one will have come, if they come in a rhythm: else 0.
func (r *rhythm) next() reliable.Instant {
	if r.apart > mostRhythm {
		return 0
	}
	return r.last.Add(2 * r.apart)
}
