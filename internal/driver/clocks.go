package driver

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// Handlers that take long keep the loop from everything else. So it looks at the
// clock now and then between messages, at each if it must: then subscribers go on
// saying that they are there and what they lack, and publications that they live,
// also in the middle of a packet; and the turn ends with the packet (Loop.trains).
const (
	// lookEvery is how far apart in time looks shall be.
	lookEvery = 2 * time.Millisecond
	// mostGrain is how many messages there are between two looks at most. A look
	// costs 30 ns or more: nothing beside so many messages. Where handlers that were
	// fast take as long as 1.5 ms a message from one to the next, the bus is still
	// heard within a second (reliable.SenderConfig.Silence).
	mostGrain = 512
)

// clocks say when to look at the clock, by what messages have taken so far. Loop
// only.
type clocks struct {
	grain  uint64           // messages from look to look
	left   uint64           // until the next one
	looked reliable.Instant // last
	chores reliable.Instant // when others had their turn last
	late   bool             // the turn has to end
	slow   bool             // some turn of this batch had to
}

// begin begins a turn at now.
func (c *clocks) begin(now reliable.Instant) {
	c.grain = max(1, c.grain)
	c.left, c.looked, c.chores, c.late = c.grain, now, now, false
}

// end ends it.
func (c *clocks) end(now reliable.Instant) { c.look(now) }

// look learns what messages take, from those since the last look.
func (c *clocks) look(now reliable.Instant) {
	n, d := c.grain-c.left, max(1, now.Sub(c.looked))
	if n > 0 {
		c.grain = max(1, min(n*uint64(lookEvery)/uint64(d), 4*c.grain, mostGrain))
	}
	c.left, c.looked = c.grain, now
}

// piece is the part of a run's body that handlers may take before the next look: as
// much as messages like its first would fill. The last message in it may be cut off:
// then it is the first of the next piece.
func (c *clocks) piece(body []byte) []byte {
	if c.left > uint64(len(body)) {
		return body
	}
	_, rest, _ := wire.NextMessage(body)
	if n := c.left * uint64(len(body)-len(rest)); n < uint64(len(body)) {
		return body[:n]
	}
	return body
}

// handled notes that handlers have taken n messages, or something else that counts
// as one. It is called between calls of handlers, also while a group's receiver is at
// work.
func (l *Loop) handled(n uint64) {
	c := &l.clocks
	if c.left > n {
		c.left -= n
		return
	}
	c.left = 0
	now := l.now()
	l.watchdog.control(now)
	if c.look(now); now.Sub(c.chores) < lookEvery {
		return
	}
	c.chores, c.late, c.slow = now, true, true
	l.noteStill(now)
	for _, g := range l.groups {
		if g != nil {
			g.sendControl(now)
		}
	}
	l.tickPublications(now)
}
