package faulty

import (
	"fmt"

	"github.com/fanfaremq/fanfare/transport"
)

// lease stands behind each train handed out: either for an inner train, shared
// by all parts that it was split into, or for a held packet.
type lease struct {
	inner transport.Train // zero for a held packet
	held  bool
	slot  int32 // held: where the copy is
	bytes int
	group int
	peer  transport.Peer // held: its source; the inner one ends with its train
	refs  int            // parts that are lent, and one for the call that still splits it
	gen   uint32         // counts uses, so that a stale note is found
}

// leases is a table of leases; the number of a lease and its generation are the
// Lease and the From of the trains handed out.
type leases struct {
	all  []lease
	free []uint32
}

func (l *leases) take() (uint32, *lease) {
	if len(l.free) == 0 {
		l.all = append(l.all, lease{})
		l.free = append(l.free, uint32(len(l.all)-1))
	}
	i := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	e := &l.all[i]
	*e = lease{gen: e.gen + 1, refs: 1}
	return i, e
}

func (l *leases) note(i uint32) uint64 { return uint64(l.all[i].gen)<<32 | uint64(i) }

// find returns the lease behind a note, or nil if it is over.
func (l *leases) find(note uint64) (uint32, *lease) {
	i := uint32(note)
	if int(i) >= len(l.all) || l.all[i].gen != uint32(note>>32) || l.all[i].refs == 0 {
		return 0, nil
	}
	return i, &l.all[i]
}

// drop takes one reference from a lease and ends it with the last.
func (t *Transport) drop(i uint32) {
	e := &t.leases.all[i]
	if e.refs--; e.refs > 0 {
		return
	}
	if e.held {
		t.hold.give(e.slot)
		t.Forget(e.peer)
	} else {
		t.inner.Release(&e.inner)
	}
	t.leases.free = append(t.leases.free, i)
}

// retain counts references to inner peers: this layer's and its user's. The inner transport knows of one.
func (t *Transport) retain(p transport.Peer) transport.Peer {
	t.peers[p]++
	return p
}

func (t *Transport) retainSource(from transport.Source) (transport.Peer, error) {
	p, err := t.inner.Retain(from)
	if err != nil {
		return 0, err
	}
	if t.retain(p); t.peers[p] > 1 {
		t.inner.Forget(p)
	}
	return p, nil
}

// Retain implements transport.Transport.
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	if t.through {
		return t.inner.Retain(from)
	}
	_, e := t.leases.find(uint64(from))
	switch {
	case e == nil:
		return 0, fmt.Errorf("faulty: %w: the train has been released", transport.ErrNoPeer)
	case e.held:
		return t.retain(e.peer), nil
	}
	return t.retainSource(e.inner.From)
}

// SourceAddress implements transport.Transport.
func (t *Transport) SourceAddress(from transport.Source) string {
	if t.through {
		return t.inner.SourceAddress(from)
	}
	_, e := t.leases.find(uint64(from))
	if e == nil || e.held { // its train has gone back
		return ""
	}
	return t.inner.SourceAddress(e.inner.From)
}

// PeerAddress implements transport.Transport.
func (t *Transport) PeerAddress(p transport.Peer) string {
	return t.inner.PeerAddress(p)
}

// Forget implements transport.Transport.
func (t *Transport) Forget(p transport.Peer) {
	if t.through {
		t.inner.Forget(p)
		return
	}
	switch n := t.peers[p]; n {
	case 0:
	case 1:
		delete(t.peers, p)
		t.inner.Forget(p)
	default:
		t.peers[p] = n - 1
	}
}
