package engine

import (
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/gid"
	"github.com/fanfaremq/fanfare/reliable"
)

// elsewhere tells a batcher how long the publisher that asks it has paused, where it has not: it has sent by others of the process
// meanwhile, those of other buses. Who publishes by several in turn is not idle at one while it sends by
// another. If each took the other's sends for pauses, each message would leave by itself for good.
type elsewhere struct {
	zero time.Duration // of the loop's clock, since epoch
	by   uint64        // the goroutine that was here last
	idle uint64        // its pauses until then
}

// activity is when a goroutine was last seen publishing, and how long it has paused in all.
type activity struct {
	at   atomic.Uint64 // nanoseconds since epoch
	idle atomic.Uint64 // nanoseconds; only how much more it is than before means something
	_    [48]byte      // to have a line of its own: only that goroutine uses it for long
}

// activities are those of all goroutines. Where two share one, each takes what the other does for its own, and so reads what that
// may just be writing. What one leaves behind that has ended, in a test perhaps that has a clock of its own, is at most a pause
// to the next one.
var activities [1 << activityBits]activity

const activityBits = 10

func activityOf(goroutine uint64) *activity {
	return &activities[goroutine*0x9e3779b97f4a7c15>>(64-activityBits)]
}

// epoch is what all loops of the process can count from.
var epoch = time.Now()

func elsewhereOf(c clock) elsewhere { return elsewhere{zero: c.start.Sub(epoch)} }

func (e *elsewhere) since(now reliable.Instant) uint64 { return uint64(e.zero) + uint64(now) }

// pause is how long the calling goroutine has paused since it was here last: gap at most, which is since when nothing was done here.
// What is not longer than near is none.
func (e *elsewhere) pause(now reliable.Instant, gap, near time.Duration) time.Duration {
	me := gid.Self()
	s, at := activityOf(me), e.since(now)
	idle := s.idle.Load()
	if d := int64(at - s.at.Load()); d > int64(near) {
		idle += uint64(d)
		s.idle.Store(idle)
	}
	s.at.Store(at)
	if e.by == me {
		gap = min(gap, time.Duration(idle-e.idle))
	}
	e.by, e.idle = me, idle
	return gap
}

// took notes that a send of the calling goroutine has ended.
func (e *elsewhere) took(end reliable.Instant) { activityOf(gid.Self()).at.Store(e.since(end)) }
