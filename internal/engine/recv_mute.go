package engine

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// muted is which streams the transport keeps out of a leg because another one, within this host,
// brings them (reliable.Muting). Loop only.
type muted struct {
	t  transport.Muter // nil: it keeps nothing out
	of map[mute]*wishes
}

type mute struct {
	index            int
	peer             transport.Peer
	publisher, epoch uint64
}

// wishes are those of the groups of one index, and what has become of them.
type wishes struct {
	of  map[*group]reliable.Wish
	out bool // it is kept out
}

// newMuted is for packets that begin as wire says: not for those that are signed.
func newMuted(t transport.Transport, signed bool) muted {
	m, ok := t.(transport.Muter)
	if !ok || signed {
		return muted{}
	}
	return muted{m, make(map[mute]*wishes)}
}

// set has a group wish something, and reports whether data can be kept out. It is where one group wishes that and
// no other needs it: what one needs, as what was sent before it came, the local leg may have brought all others.
func (m *muted) set(x mute, g *group, w reliable.Wish) bool {
	all := m.of[x]
	if all == nil {
		all = &wishes{of: make(map[*group]reliable.Wish)}
		m.of[x] = all
	}
	all.of[g] = w
	can := m.apply(x, all)
	if w == reliable.WishNone || w == reliable.WishOut && !can {
		delete(all.of, g)
	}
	if len(all.of) == 0 {
		delete(m.of, x)
	}
	return can
}

// apply keeps out or lets in, and reports whether it can.
func (m *muted) apply(x mute, all *wishes) bool {
	value, mask := wire.DataHead(x.publisher, x.epoch)
	head := transport.Head{Value: value, Mask: mask}
	switch out := all.keepOut(); {
	case out && !all.out:
		all.out = m.t.Mute(x.index, x.peer, head)
		return all.out
	case !out && all.out:
		m.t.Unmute(x.index, x.peer, head)
		all.out = false
	}
	return true
}

// keepOut reports whether some group wishes it, and none the contrary.
func (w *wishes) keepOut() (out bool) {
	for _, x := range w.of {
		if x == reliable.WishIn {
			return false
		}
		out = out || x == reliable.WishOut
	}
	return out
}

// mute implements reliable.Muting.
func (g *group) mute(st *reliable.Stream, peer uint32, w reliable.Wish) bool {
	return g.l.inbox.muted.set(mute{g.index, transport.Peer(peer), st.Publisher, st.Epoch}, g, w)
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
