package driver

import (
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// wayLosses tells packets that were lost on their way here from those that this host
// dropped. Both are found missing, but only a drop is counted, and before its packet is
// repaired or given up: a packet that is settled and for which there was no drop was lost
// on the way. Drops that nobody misses explain nothing: they are forgotten as soon as no
// packet is missing. Loop only, but for fabric.
type wayLosses struct {
	dropped uint64           // by this host, as noted last
	settled uint64           // packets that were missing, as noted last
	now     uint64           // the same, of all groups up to now
	here    uint64           // packets that drops explain, and that are not settled yet
	before  uint64           // dropped by receivers that there are no more
	lookAt  reliable.Instant // when to look at drops although nothing was settled
	fabric  atomic.Uint64    // packets that were lost on the way
}

// lookEvery is how often drops that nobody misses are forgotten.
const lookEvery = time.Second

// due reports whether to call note.
func (x *wayLosses) due(now reliable.Instant) bool { return x.now != x.settled || now >= x.lookAt }

// note takes in how many packets this host has dropped up to now, of which each stands for
// up to train that were missing, and whether some are missing still.
func (x *wayLosses) note(now reliable.Instant, dropped, train uint64, lacking bool) {
	x.here += train * (dropped - x.dropped)
	lost := x.now - x.settled
	here := min(lost, x.here)
	x.here -= here
	if lost > here {
		x.fabric.Add(lost - here)
	}
	if !lacking {
		x.here = 0
	}
	x.dropped, x.settled, x.lookAt = dropped, x.now, now.Add(lookEvery)
}

// noteLosses looks where packets were lost that were settled in this turn. A kernel that
// merges packets into trains counts the drop of a train once.
func (l *Loop) noteLosses(now reliable.Instant) {
	x := &l.counters.way
	if !x.due(now) {
		return
	}
	dropped, lacking := droppedBefore(l.t.Stats()), false
	dropped += x.before
	for g := range l.counted() {
		dropped += g.r.Dropped()
		lacking = lacking || g.r.AnyMissing()
	}
	train := uint64(1)
	if l.caps.GRO {
		train = uint64(max(1, l.caps.MaxTrain))
	}
	x.note(now, dropped, train, lacking)
}

// droppedBefore is how many packets this host has dropped before a group saw them.
func droppedBefore(st transport.Stats) uint64 {
	return st.ReceiveOverflow + st.ReceiveTruncated + st.Damaged + st.Injected
}
