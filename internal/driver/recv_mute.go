package driver

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// muted is which streams the transport keeps out of a leg because another one, within this host,
// brings them (reliable.Muting). Loop only.
type muted struct {
	t  transport.Muter // nil: it keeps nothing out
	by map[mute]int    // how many groups of one index want it
}

type mute struct {
	index            int
	peer             transport.Peer
	publisher, epoch uint64
}

// newMuted is for packets that begin as wire says: not for those that are signed.
func newMuted(t transport.Transport, signed bool) muted {
	m, ok := t.(transport.Muter)
	if !ok || signed {
		return muted{}
	}
	return muted{m, make(map[mute]int)}
}

// set keeps out, or lets in, and reports whether it could. Where several want it the last one
// lets in: what the others still keep out then comes by the leg that they hear.
func (m *muted) set(x mute, on bool) bool {
	value, mask := wire.DataHead(x.publisher, x.epoch)
	head := transport.Head{Value: value, Mask: mask}
	switch {
	case on:
		if m.by[x] == 0 && !m.t.Mute(x.index, x.peer, head) {
			return false
		}
		m.by[x]++
	case m.by[x] > 1:
		m.by[x]--
	default:
		delete(m.by, x)
		m.t.Unmute(x.index, x.peer, head)
	}
	return true
}

// mute implements reliable.Muting.
func (g *group) mute(st *reliable.Stream, peer uint32, on bool) bool {
	return g.l.inbox.muted.set(mute{g.index, transport.Peer(peer), st.Publisher, st.Epoch}, on)
}

// local are the legs within this host.
func (x *legs) local() (bits uint8) {
	if x.t != nil {
		for i, leg := range x.t.Legs() {
			if leg.Local {
				bits |= 1 << i
			}
		}
	}
	return bits
}
