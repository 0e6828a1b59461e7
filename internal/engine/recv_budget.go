package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// Slow handlers keep the loop from everything else, so a turn has limited time for them. When it is used up, no handler
// is called (inPlace), streams deliver nothing (output.Room), and the turn ends: subscribers still send statuses and
// NAKs, and publications heartbeats. The next turn continues where this one stopped, also in the middle of a packet.
const (
	// turnTime is a turn's time for handlers, and the intended time between two readings of the clock.
	turnTime = 2 * time.Millisecond
	// maxGrain is the largest number of messages between two readings. A reading costs 30 ns or more, which is little
	// for so many messages. Even if fast handlers suddenly take 1.5 ms a message, the bus sends something each second
	// (reliable.SenderConfig.Silence).
	maxGrain = 512
)

// budget is a turn's time for handlers, and where they have stopped. It decides when to read the clock, by the time
// that messages have taken so far. Loop only.
type budget struct {
	grain  uint64           // messages between two readings of the clock
	left   uint64           // messages until the next reading
	looked reliable.Instant // the last reading
	began  reliable.Instant // start of the turn
	used   bool             // the turn's time is used up
	slow   bool             // a turn's time was used up with this batch

	stopped *inPlace // in the middle of a packet, when used was set; nil: no handlers have stopped
	refused bool     // a stream found no room and must be resumed
}

func (b *budget) begin(now reliable.Instant) {
	b.grain = max(1, b.grain)
	b.left, b.looked, b.began, b.used = b.grain, now, now, false
}

func (b *budget) end(now reliable.Instant) { b.look(now) }

// look adapts grain to the time that messages have taken since the last reading.
func (b *budget) look(now reliable.Instant) {
	n, d := b.grain-b.left, max(1, now.Sub(b.looked))
	if n > 0 {
		b.grain = max(1, min(n*uint64(turnTime)/uint64(d), 4*b.grain, maxGrain))
	}
	b.left, b.looked = b.grain, now
}

// took is called when a reading is due. It marks the turn as used up after turnTime.
func (b *budget) took(now reliable.Instant) {
	b.left = 0
	if b.look(now); now.Sub(b.began) >= turnTime {
		b.used, b.slow = true, true
	}
}

// room reports whether the turn has time left.
func (b *budget) room() bool {
	if b.used {
		b.refused = true
	}
	return !b.used
}

// behind reports whether handlers have still to be called for packets received earlier.
func (b *budget) behind() bool { return b.stopped != nil || b.refused }

// piece returns the part of a run's body that handlers may have before the next reading of the clock, estimated by the
// size of its first message. Its last message may be cut off: the next piece begins with that one.
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

// handled records that handlers have had n messages, or one item that is no message.
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

// resume continues where the last turn stopped: in the middle of a packet, and with streams that found no room.
func (l *Loop) resume(now reliable.Instant) {
	b := &l.budget
	if b.stopped != nil {
		b.stopped.resume()
	}
	if b.refused && !b.used {
		b.refused = false
		for _, g := range l.receiving {
			g.r.Resume(now)
		}
	}
}
