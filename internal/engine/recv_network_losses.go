package engine

import (
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// networkLosses separates losses in the network from drops on this host. Receivers find both missing. A packet that is
// settled (repaired or given up) without a counted drop was lost in the network. A drop is counted before the next
// packet or a heartbeat shows that its packet is missing. Drops of packets that are never missing explain nothing: they
// are forgotten when no packet is missing and a later packet would have shown the gap, after a second at most. An
// adapter that does not count drops reports only that its queue was used up, which explains the packets that are
// missing then. Loop only, except fabric and queue.
type networkLosses struct {
	dropped uint64           // by this host, at the last note
	settled uint64           // missing packets that were settled, at the last note
	now     uint64           // the same up to now, of all groups
	here    uint64           // packets counted as dropped and not settled
	fresh   uint64           // of here: dropped since the last look
	before  uint64           // dropped by closed receivers
	lookAt  reliable.Instant // when to look at drops although nothing was settled
	full    uint64           // times that the receive queue was used up, at the last note
	starved reliable.Instant // until then the used up queue may explain missing packets
	fabric  atomic.Uint64    // packets lost in the network
	queue   atomic.Uint64    // packets that most likely found no receive posted
}

// lookEvery is how often drops without a missing packet are forgotten.
const lookEvery = time.Second

// due reports whether to call note.
func (x *networkLosses) due(now reliable.Instant) bool { return x.now != x.settled || now >= x.lookAt }

// note records how many packets this host has dropped up to now, each of which stands for up to train missing packets,
// how often the receive queue was used up, and whether packets are still missing.
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
	case lost > 0: // nothing is missing any more
		x.here, x.starved = min(x.here, x.fresh), 0
	case look:
		x.here = min(x.here, x.fresh)
	}
	if look {
		x.fresh, x.lookAt = 0, now.Add(lookEvery)
	}
}

// maxMerged is how many packets the kernel merges into a train (UDP_GRO_CNT_MAX, net/ipv4/udp_offload.c).
const maxMerged = 64

// noteLosses attributes the packets that were settled in this turn. A kernel that merges packets into trains counts the
// drop of a train once.
func (l *Loop) noteLosses(now reliable.Instant) {
	x := &l.counters.network
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
		train = maxMerged
	}
	x.note(now, dropped, train, st.ReceiveQueueFull, lacking)
}

// droppedBefore returns how many packets this host has dropped before a group saw them.
func droppedBefore(st *stats.Transport) uint64 {
	return st.ReceiveOverflow + st.ReceiveTruncated + st.Damaged + st.Injected + st.InjectedDelay
}
