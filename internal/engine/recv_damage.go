package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// watchDamage logs damaged packets, at the 1st, 2nd, 4th, 8th … one.
func (g *group) watchDamage() {
	d := g.r.TakeDamage()
	if d.Packets == 0 {
		return
	}
	n := g.r.Stats().Damaged
	if !Doubled(n-d.Packets, n) {
		return
	}
	g.l.sayOf(d.Publisher, &report.BadPackets, "packets", n, "publisher", d.Publisher, "address", d.Address, "group", g.address)
	g.l.event(events.Event{Kind: events.BadPackets, Group: g.address, Publisher: d.Publisher,
		Address: d.Address, Behind: n})
}
