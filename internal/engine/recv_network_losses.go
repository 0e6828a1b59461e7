package engine

import (
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// networkLosses separates losses in the network from drops on this host. Both are found missing, but only a drop is
// counted, and before its packet is repaired or given up: a packet that is settled without a drop was lost on the
// way. A drop is counted before its packet is found missing, by the next packet or by a heartbeat. Drops of packets
// that are never missing explain nothing: they are forgotten when no packet is missing and they are old enough, a
// second at most, that a later packet would have shown the gap. An adapter that does not count drops reports only
// that its queue was used up: that explains the packets that are missing then. Loop only, but for fabric and queue.
type networkLosses struct {
	dropped uint64           // by this host, as noted last
	settled uint64           // packets that were missing, as noted last
	now     uint64           // the same, of all groups up to now
	here    uint64           // packets that drops explain, and that are not settled yet
	fresh   uint64           // of here: dropped since drops were looked at last
	before  uint64           // dropped by receivers that there are no more
	lookAt  reliable.Instant // when to look at drops although nothing was settled
	full    uint64           // times that the receive queue was used up, as noted last
	starved reliable.Instant // until when that may explain what is missing
	fabric  atomic.Uint64    // packets that were lost on the way
	queue   atomic.Uint64    // packets that found no receive posted, by all that is known
}

// lookEvery is how often drops without a missing packet are forgotten.
const lookEvery = time.Second

// due reports whether to call note.
func (x *networkLosses) due(now reliable.Instant) bool { return x.now != x.settled || now >= x.lookAt }

// note takes in how many packets this host has dropped up to now, of which each stands for up to train that were
// missing, how often the receive queue was used up, and whether some are missing still.
func (x *networkLosses) note(now reliable.Instant, dropped, train, full uint64, lacking bool) {
	if full != x.full || lacking && now < x.starved {
		x.full, x.starved = full, now.Add(2*lookEvery)
	}
	just := train * (dropped - x.dropped)
	x.here += just
	x.fresh += just
	lost := x.now - x.settled
	here := min(lost, x.here)
	x.here -= here
	if lost > here && now < x.starved {
		x.queue.Add(lost - here)
	} else if lost > here {
		x.fabric.Add(lost - here)
	}
	x.dropped, x.settled = dropped, x.now
	look := now >= x.lookAt
	switch {
	case lacking:
	case lost > 0: // all that was missed is here again
		x.here, x.starved = min(x.here, x.fresh), 0
	case look:
		x.here = min(x.here, x.fresh)
	}
	if look {
		x.fresh, x.lookAt = 0, now.Add(lookEvery)
	}
}

// mostMerged is how many packets a kernel merges into a train (UDP_GRO_CNT_MAX, net/ipv4/udp_offload.c).
const mostMerged = 64

// noteLosses looks where packets were lost that were settled in this turn. A kernel that
// merges packets into trains counts the drop of a train once.
func (l *Loop) noteLosses(now reliable.Instant) {
	x := &l.counters.way
	if !x.due(now) {
		return
	}
	st := l.t.Stats()
	dropped, lacking := droppedBefore(&st.Transport), false
	dropped += x.before
	for g := range l.counted() {
		dropped += g.r.Dropped()
		lacking = lacking || g.r.AnyMissing()
	}
	train := uint64(1)
	if l.caps.GRO {
		train = mostMerged
	}
	x.note(now, dropped, train, st.ReceiveQueueFull, lacking)
}

// droppedBefore is how many packets this host has dropped before a group saw them.
func droppedBefore(st *stats.Transport) uint64 {
	return st.ReceiveOverflow + st.ReceiveTruncated + st.Damaged + st.Injected + st.InjectedDelay
}
