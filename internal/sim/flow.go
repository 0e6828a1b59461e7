package sim

// checkLimit checks that a new packet fits the windows of all subscribers that
// the publisher has heard of, or of as many as make its quorum. docs/protocol.md §8.1.
func (p *publisher) checkLimit(b []byte) {
	seq, first := dataSeq(b)
	if p.o.Flow == FlowNone || !first {
		return
	}
	count, room := 0, 0
	for _, m := range p.t.members {
		if m.left || m.released || m.letGo {
			continue
		}
		count++
		if seq < m.limit {
			room++
		}
	}
	need := count
	if p.o.Flow == FlowQuorum {
		need = min(need, p.o.Quorum)
	}
	if room < need {
		p.sim.fail("publisher %d: packet %d sent, though only %d of %d subscribers have room for it, and %d must", p.index, seq, room, count, need)
	}
}
