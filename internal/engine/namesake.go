package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Several buses with one publisher id: docs/protocol §3.7.

// instancePair is two of them. A pair is reported once, not once per group.
type instancePair struct{ publisher, later, earlier events.ID }

// maxDuplicates bounds the remembered pairs. Beyond it a pair may be reported again.
const maxDuplicates = 256

// namesake logs that a publisher with our own id has come up.
func (l *Loop) namesake(of events.Instance) {
	if of.Publisher != l.cfg.Publisher || of == l.cfg.Instance {
		return
	}
	if l.namesakes++; Doubled(l.namesakes-1, l.namesakes) {
		report.Namesake.Log(l.log,
			"name", l.cfg.Name, "publisher", of.Publisher, "epoch", of.Epoch, "ours", l.cfg.Epoch, "heard", l.namesakes)
	}
}

// DuplicateName implements reliable.Sink. The bus and its log report a pair once; each subscription of the group that
// wants events of publishers gets the event.
func (g *group) DuplicateName(st, other *reliable.Stream) {
	if g.suppressed {
		return
	}
	e := g.event(events.DuplicateName, st)
	e.Address, e.OtherEpoch = st.Origin().Address, g.l.cfg.Epoch
	if other != nil {
		e.OtherEpoch, e.OtherAddress = other.Epoch, other.Origin().Address
	} else if len(g.l.publications()) == 0 {
		return // only the other bus publishes
	}
	g.announce(e)
	for _, s := range g.subs.List() {
		s.notify(e)
	}
	pair, known := instancePair{e.Publisher, e.Epoch, e.OtherEpoch}, g.l.duplicates
	if known[pair] {
		return
	}
	if len(known) >= maxDuplicates {
		clear(known)
	}
	known[pair] = true
	g.l.event(e)
	g.l.say(&report.DuplicateName, eventArgs(&report.DuplicateName, &e)...)
}
