package legs

import "github.com/fanfaremq/fanfare/transport"

var _ transport.Muter = (*Transport)(nil)

// Mute implements transport.Muter, where the leg that the peer is of does.
func (t *Transport) Mute(group int, from transport.Peer, head transport.Head) bool {
	m, p := t.muter(from)
	return m != nil && m.Mute(group, p, head)
}

// Unmute implements transport.Muter.
func (t *Transport) Unmute(group int, from transport.Peer, head transport.Head) {
	if m, p := t.muter(from); m != nil {
		m.Unmute(group, p, head)
	}
}

// muter is the leg that a peer is of, and what the peer is there. It is nil where it cannot mute.
func (t *Transport) muter(from transport.Peer) (transport.Muter, transport.Peer) {
	x := t.peers.Get(from)
	if x == nil || t.closing.Load() {
		return nil, 0
	}
	l := t.legs[x.leg]
	m, ok := l.Transport.(transport.Muter)
	if !ok || l.ended {
		return nil, 0
	}
	l.own()
	return m, x.p
}
