package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// recallBuilder builds recall packets.
type recallBuilder struct {
	c *control
	p []byte // the open packet; nil: none
	n int    // replies in it
}

// add adds one reply. It reports false if there is no room.
func (b *recallBuilder) add(x *wire.Recalled) bool {
	if b.p == nil {
		if b.c.full() {
			return false
		}
		b.p = wire.AppendRecallHeader(b.c.begin(), b.c.s.header)
	}
	b.p = wire.AppendRecalled(b.p, x)
	if b.n++; len(b.p)+wire.RecallEntryLen > b.c.s.cfg.PacketSize {
		b.finish()
	}
	return true
}

func (b *recallBuilder) finish() {
	if b.p != nil {
		wire.FinishRecall(b.p, b.n)
		b.c.end(b.p)
		b.p, b.n = nil, 0
	}
}
