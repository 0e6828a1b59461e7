package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// said is where a status stands among those of its subscriber. Packets overtake each
// other, and may be replayed: what is older than another has no say but in what only
// grows. docs/protocol.md §7.
type said struct {
	next  uint64
	echo  uint64        // SentAt of the newest heartbeat heard
	delay time.Duration // since then
}

func saidIn(st *wire.Status) said { return said{st.Next, st.Echo, st.EchoDelay} }

// before reports whether a was said before b for certain.
func (a said) before(b said) bool {
	return a.next < b.next || a.echo < b.echo || a.echo == b.echo && a.delay < b.delay
}

// early reports whether it echoes a heartbeat that is still to be sent. A caller's now
// may be a little old.
func (a said) early(now Instant) bool { return a.echo > uint64(now.Add(activeBeat)) }

// late reports whether it was said too long ago to take somebody in. Who has heard no
// heartbeat yet cannot tell.
func (a said) late(now Instant) bool {
	return a.echo != 0 && now.Sub(Instant(a.echo))-a.delay > staleStatus
}

// departed remembers what subscribers said last that have left or were released, so
// that older statuses do not bring them back.
type departed struct {
	list [farewellsKept]departure
	next int
}

type departure struct {
	id uint64
	said
	used bool
}

func (d *departed) find(id uint64) *departure {
	for i := range d.list {
		if g := &d.list[i]; g.used && g.id == id {
			return g
		}
	}
	return nil
}

// bury remembers id, in place of the oldest one if need be.
func (d *departed) bury(id uint64, last said) {
	g := d.find(id)
	if g == nil {
		g = &d.list[d.next]
		d.next = (d.next + 1) % len(d.list)
	}
	*g = departure{id, last, true}
}

// admits reports whether x was said after id left, if that is known to have left.
func (d *departed) admits(id uint64, x said) bool {
	g := d.find(id)
	return g == nil || !x.before(g.said) && x != g.said
}
