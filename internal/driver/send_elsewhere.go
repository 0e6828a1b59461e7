package driver

import (
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/gid"
	"github.com/fanfaremq/fanfare/reliable"
)

// elsewhere tells a batcher what the publisher that asks it has sent by others of the process: those of the bus's other loops, and of
// other buses. Who publishes by several in turn is not idle at one while it sends by another. If each took the other's sends for
// pauses, each message would leave by itself for good.
type elsewhere struct{ at time.Duration } // when the loop's clock was zero

// lastSend is the last send that a goroutine has made.
type lastSend struct {
	by  atomic.Uint64 // the goroutine
	end atomic.Int64  // when it ended: nanoseconds since epoch
	_   [48]byte      // to have a line of its own: only that goroutine uses it for long
}

// lastSends are those of all goroutines. Where two share one, each forgets what it has sent when the other one sends.
var lastSends [64]lastSend

// epoch is what all loops of the process can count from.
var epoch = time.Now()

func elsewhereOf(c clock) elsewhere { return elsewhere{c.start.Sub(epoch)} }

func lastSendOf(goroutine uint64) *lastSend { return &lastSends[goroutine*0x9e3779b97f4a7c15>>58] }

// took notes that the calling goroutine has sent.
func (e *elsewhere) took(end reliable.Instant) {
	me := gid.Self()
	s := lastSendOf(me)
	s.by.Store(me)
	s.end.Store(int64(e.at) + int64(end))
}

// last is when the calling goroutine's last send ended, by whatever loop, or 0 if that is not known.
func (e *elsewhere) last(now reliable.Instant) reliable.Instant {
	me := gid.Self()
	s := lastSendOf(me)
	if s.by.Load() != me {
		return 0
	}
	if end := reliable.Instant(s.end.Load() - int64(e.at)); end <= now {
		return end
	}
	return 0 // of one that ended, in a test that has a clock of its own
}
