package faulty

import (
	"fmt"

	"github.com/fanfaremq/fanfare/transport"
)

// lease is the record of a lent train: of an inner train, shared by all parts that it was split into, or of a held
// packet.
type lease struct {
	inner transport.Train // zero for a held packet
	held  bool
	slot  int32 // held: slot of the copy
	bytes int
	group int
	peer  transport.Peer // held: its source, as the inner Source ends with its train
	refs  int            // lent parts, plus one while the train is being split
	gen   uint32         // counts uses, to detect a stale lease
}

// leases is a table of leases. The number and the generation of a lease are the Lease and the From of the lent trains.
type leases struct {
	all  []lease
	free []uint32
}

func (l *leases) alloc() (uint32, *lease) {
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

func (l *leases) token(i uint32) uint64 { return uint64(l.all[i].gen)<<32 | uint64(i) }

// find returns the lease for a Lease or From, or nil if it is released.
func (l *leases) find(token uint64) (uint32, *lease) {
	i := uint32(token)
	if int(i) >= len(l.all) || l.all[i].gen != uint32(token>>32) || l.all[i].refs == 0 {
		return 0, nil
	}
	return i, &l.all[i]
}

// drop removes one reference to a lease, and ends the lease with the last.
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

// retain counts references to inner peers, by this layer and its user. The inner transport counts one.
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
	if e == nil || e.held { // its train was released
		return ""
	}
	return t.inner.SourceAddress(e.inner.From)
}

// PeerAddress implements transport.Transport.
func (t *Transport) PeerAddress(p transport.Peer) string { return t.inner.PeerAddress(p) }

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
