package driver

import "github.com/fanfaremq/fanfare/reliable"

// watchDamage tells the log of packets that came damaged: of the 1st, 2nd, 4th, 8th ….
func (g *group) watchDamage(now reliable.Instant) {
	d := g.r.TakeDamage()
	before := g.damaged
	if g.damaged += d.Packets; !doubled(before, g.damaged) {
		return
	}
	if left, ok := g.l.notes.allow(now); ok {
		g.l.log.Warn("packets were dropped because their checksum is missing or wrong: the network damages them, or somebody forges them",
			withLeftOut([]any{"packets", g.damaged, "publisher", id(d.Publisher), "address", d.Address, "group", g.address}, left)...)
	}
}
