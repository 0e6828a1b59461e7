package legs

import (
	"fmt"

	"github.com/fanfaremq/fanfare/transport"
)

// peer is a peer of one leg: replies to it go there.
type peer struct {
	leg uint8
	p   transport.Peer
}

// Retain implements transport.Transport.
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	e := t.leases.find(uint64(from))
	if e == nil {
		return 0, fmt.Errorf("legs: %w: the train has been released", transport.ErrNoPeer)
	}
	l := t.legs[e.leg]
	l.reclaim()
	p, err := l.Retain(e.inner.From)
	if err != nil {
		return 0, err
	}
	key := peer{e.leg, p}
	ours, err := t.peers.Retain(key, key)
	if err != nil {
		t.received.PeersRefused.Add(1)
		l.Forget(p)
	}
	return ours, err
}

// Forget implements transport.Transport.
func (t *Transport) Forget(p transport.Peer) {
	if x := t.peers.Get(p); x != nil {
		l := t.legs[x.leg]
		l.reclaim()
		l.Forget(x.p)
		t.peers.Forget(p)
	}
}

// Reply implements transport.Transport: on the leg on which the peer's packet arrived.
func (t *Transport) Reply(p transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	x := t.peers.Get(p)
	if x == nil {
		return fmt.Errorf("legs: %w", transport.ErrNoPeer)
	}
	l := t.legs[x.leg]
	l.reclaim()
	return l.Reply(x.p, packet)
}

// SourceAddress implements transport.Transport.
func (t *Transport) SourceAddress(from transport.Source) string {
	e := t.leases.find(uint64(from))
	if e == nil {
		return ""
	}
	return t.legs[e.leg].SourceAddress(e.inner.From)
}

// PeerAddress implements transport.Transport.
func (t *Transport) PeerAddress(p transport.Peer) string {
	x := t.peers.Get(p)
	if x == nil {
		return ""
	}
	return t.legs[x.leg].PeerAddress(x.p)
}
