package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// Handlers that take long keep the loop from everything else. So a turn has only so much time for them. When it is used
// up handlers are called no more (inPlace), streams deliver no more (output.Room), and the turn ends: subscribers go on
// saying that they are there and what they lack, and publications that they live. The next turn goes on where this one
// has stopped, also in the middle of a packet.
const (
	// turnTime is how long handlers may take of a turn, and how far apart in time looks at the clock shall be.
	turnTime = 2 * time.Millisecond
	// mostGrain is how many messages there are between two looks at most. A look costs 30 ns or more: nothing beside so
	// many messages. Where handlers that were fast take as long as 1.5 ms a message from one to the next, the bus is still
	// heard within a second (reliable.SenderConfig.Silence).
	mostGrain = 512
)

// budget is a turn's time for handlers, and where they have stopped. It says when to
// look at the clock, by what messages have taken so far. Loop only.
type budget struct {
	grain  uint64           // messages from look to look
	left   uint64           // until the next one
	looked reliable.Instant // last
	began  reliable.Instant // the turn
	used   bool             // the turn's time is used up
	slow   bool             // so was some turn's of this batch

	stopped *inPlace // in the middle of a packet; used has been set since, and is until it goes on
	refused bool     // a stream found no room: it has to be resumed
}

// begin begins a turn at now.
func (b *budget) begin(now reliable.Instant) {
	b.grain = max(1, b.grain)
	b.left, b.looked, b.began, b.used = b.grain, now, now, false
}

// end ends it.
func (b *budget) end(now reliable.Instant) { b.look(now) }

// look learns what messages take, from those since the last look.
func (b *budget) look(now reliable.Instant) {
	n, d := b.grain-b.left, max(1, now.Sub(b.looked))
	if n > 0 {
		b.grain = max(1, min(n*uint64(turnTime)/uint64(d), 4*b.grain, mostGrain))
	}
	b.left, b.looked = b.grain, now
}

// took notes at now that it was time to look, and uses the turn up if it has lasted.
func (b *budget) took(now reliable.Instant) {
	b.left = 0
	if b.look(now); now.Sub(b.began) >= turnTime {
		b.used, b.slow = true, true
	}
}

// room reports whether there is time left in this turn.
func (b *budget) room() bool {
	if b.used {
		b.refused = true
	}
	return !b.used
}

// behind reports whether handlers have still to be called with what has come before.
func (b *budget) behind() bool { return b.stopped != nil || b.refused }

// piece is the part of a run's body that handlers may take before the next look: as much as messages like its first
// would fill. The last message in it may be cut off: then it is the first of the next piece.
func (b *budget) piece(body []byte) []byte {
	if b.left > uint64(len(body)) {
		return body
	}
	_, rest, _ := wire.NextMessage(body)
	if n := b.left * uint64(len(body)-len(rest)); n < uint64(len(body)) {
		return body[:n]
	}
	return body
}

// handled notes that handlers have taken n messages, or something else that counts as one.
func (l *Loop) handled(n uint64) {
	b := &l.budget
	if b.left > n {
		b.left -= n
		return
	}
	now := l.now()
	l.watchdog.control(now)
	b.took(now)
}

// goOn continues where the last turn has stopped: in the middle of a packet, and with streams that found no room.
func (l *Loop) goOn(now reliable.Instant) {
	b := &l.budget
	if b.stopped != nil {
		b.stopped.goOn()
	}
	if b.refused && !b.used {
		b.refused = false
		for _, g := range l.receiving {
			g.r.Resume(now)
		}
	}
}
