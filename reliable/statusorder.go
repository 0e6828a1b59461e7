package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// statusOrder is where a status stands among those of its subscriber. Packets overtake
// each other, and may be replayed: a stale status may only advance what never goes back.
// docs/protocol.md §7.5.
type statusOrder struct {
	next  uint64
	echo  uint64        // SentAt of the newest heartbeat heard
	delay time.Duration // since then
}

func orderOf(st *wire.Status) statusOrder { return statusOrder{st.Next, st.Echo, st.EchoDelay} }

// before reports whether a was sent before b for certain.
func (a statusOrder) before(b statusOrder) bool {
	return a.next < b.next || a.echo < b.echo || a.echo == b.echo && a.delay < b.delay
}

// supersedes reports whether a was sent after b for certain, or may have been.
func (a statusOrder) supersedes(b statusOrder) bool { return !a.before(b) && a != b }

// fromFuture reports whether it echoes a heartbeat that is still to be sent. A caller's now
// may be a little old.
func (a statusOrder) fromFuture(now Instant) bool { return a.echo > uint64(now.Add(activeBeat)) }

// stale reports whether it was sent too long ago to take its subscriber in. Who has heard
// no heartbeat yet cannot tell.
func (a statusOrder) stale(now Instant) bool {
	return a.echo != 0 && now.Sub(Instant(a.echo))-a.delay > staleStatus
}
