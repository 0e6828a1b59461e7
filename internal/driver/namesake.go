package driver

import (
	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Several buses with one publisher id: docs/protocol.md §3.7.

// namesakes are what was told of them, once a bus and not once a group. Loop only.
type namesakes struct {
	ours int                   // other buses with our id
	told map[instancePair]bool // of mostPairs at most
}

type instancePair struct{ publisher, later, earlier uint64 }

// mostPairs bounds what is remembered: beyond, a pair may be told of again.
const mostPairs = 256

// first reports whether a pair was not told of yet, and notes it.
func (n *namesakes) first(p instancePair) bool {
	if n.told[p] {
		return false
	}
	if n.told == nil || len(n.told) >= mostPairs {
		n.told = make(map[instancePair]bool)
	}
	n.told[p] = true
	return true
}

// namesake warns when a publisher that came up has our own id.
func (l *Loop) namesake(st *reliable.Stream) {
	if st.Publisher != l.cfg.Publisher || st.Epoch == l.cfg.Epoch {
		return
	}
	n := &l.namesakes
	if n.ours++; doubled(uint64(n.ours-1), uint64(n.ours)) {
		logline.Namesake.Log(l.log,
			"name", l.cfg.Name, "publisher", id(st.Publisher), "epoch", st.Epoch, "ours", l.cfg.Epoch, "heard", n.ours)
	}
}

// DuplicateName implements reliable.Sink: the bus and its log learn of it once, and each
// subscription of the group that wants to know of publishers.
func (g *group) DuplicateName(st, other *reliable.Stream) {
	if g.suppressed {
		return
	}
	e := g.event(events.DuplicateName, st)
	e.Address, e.OtherEpoch = st.Origin().Address, g.l.cfg.Epoch
	if other != nil {
		e.OtherEpoch, e.OtherAddress = other.Epoch, other.Origin().Address
	} else if len(g.l.publications()) == 0 {
		return // of the two only the other one publishes
	}
	g.announce(e)
	for _, s := range g.subs {
		s.notify(e)
	}
	if !g.l.namesakes.first(instancePair{st.Publisher, e.Epoch, e.OtherEpoch}) {
		return
	}
	g.l.event(e)
	g.l.say(&logline.DuplicateName,
		"name", e.Name, "publisher", e.Publisher.String(), "epoch", e.Epoch, "address", e.Address, "other_epoch", e.OtherEpoch, "other_address", e.OtherAddress)
}
