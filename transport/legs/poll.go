package legs

import (
	"errors"
	"net"
	"slices"

	"github.com/fanfaremq/fanfare/transport"
)

// lease is the record of a lent train.
type lease struct {
	leg   uint8
	used  bool
	gen   uint32 // counts uses, to detect a stale lease
	inner transport.Train
}

// leases is a table of leases. Index and generation of a lease are the Lease and the From of its train: the values of
// the leg use all bits of theirs.
type leases struct {
	all  []lease
	free []uint32
}

// add records a train of a leg, and returns it with our Lease and From.
func (x *leases) add(leg int, tr transport.Train) transport.Train {
	if len(x.free) == 0 {
		x.all = append(x.all, lease{})
		x.free = append(x.free, uint32(len(x.all)-1))
	}
	i := x.free[len(x.free)-1]
	x.free = x.free[:len(x.free)-1]
	e := &x.all[i]
	*e = lease{leg: uint8(leg), used: true, gen: e.gen + 1, inner: tr}
	token := uint64(e.gen)<<32 | uint64(i)
	tr.Leg, tr.Lease, tr.From = uint8(leg), token, transport.Source(token)
	return tr
}

// find returns the lease for a Lease or From, or nil if it is released.
func (x *leases) find(token uint64) *lease {
	if i := uint32(token); int(i) < len(x.all) && x.all[i].used && x.all[i].gen == uint32(token>>32) {
		return &x.all[i]
	}
	return nil
}

// Poll implements transport.Transport. The legs share the room in b, so that none lags behind the others.
func (t *Transport) Poll(b *transport.Batch) error {
	b.Trains, b.Events, b.RepliesLost = b.Trains[:0], b.Events[:0], false
	if t.closing.Load() {
		return t.end()
	}
	t.beginRound()
	room := t.lent.Room(min(cap(b.Trains), t.caps.Batch))
	var filled [transport.MaxLegs]bool
	n := len(t.legs)
	for i := range n {
		at := (t.turn + i) % n
		left := room - len(b.Trains)
		share := (left + n - i - 1) / (n - i)
		filled[at] = t.pollLeg(at, b, share) == share && share > 0
	}
	for i := range n {
		if at := (t.turn + i) % n; filled[at] && len(b.Trains) < room {
			t.pollLeg(at, b, room-len(b.Trains))
		}
	}
	b.More = t.more()
	t.turn = (t.turn + 1) % n
	t.lent.Lent(len(b.Trains))
	t.reportStuck()
	k := min(len(t.pending), cap(b.Events))
	b.Events = append(b.Events, t.pending[:k]...)
	t.pending = append(t.pending[:0], t.pending[k:]...)
	return t.allFailed()
}

// beginRound begins a round (transport.Batch.More), unless one is in progress: it is over when each leg
// has ended a round that began no earlier.
func (t *Transport) beginRound() {
	if t.more() {
		return
	}
	for _, l := range t.legs {
		if l.rounds = 1; l.batch.More {
			l.rounds = 2
		}
	}
}

// more reports whether a leg has not ended its round.
func (t *Transport) more() bool {
	return slices.ContainsFunc(t.legs, func(l *leg) bool { return l.rounds > 0 && !l.ended })
}

// pollLeg polls a leg for up to room trains, and returns how many it had.
func (t *Transport) pollLeg(at int, b *transport.Batch, room int) int {
	l := t.legs[at]
	if l.ended {
		return 0
	}
	l.reclaim()
	l.batch.Trains = l.trains[:0:room]
	if err := l.Poll(&l.batch); err != nil && t.closing.Load() {
		l.ended = errors.Is(err, net.ErrClosed) // Close was called meanwhile
		return 0
	} else if err != nil {
		t.legEnded(at, err)
		return 0
	}
	b.RepliesLost = b.RepliesLost || l.batch.RepliesLost
	if !l.batch.More {
		l.rounds = max(0, l.rounds-1)
	}
	for i := range l.batch.Events {
		t.joined(at, &l.batch.Events[i])
	}
	packets, bytes := 0, 0
	for _, tr := range l.batch.Trains {
		b.Trains = append(b.Trains, t.leases.add(at, tr))
		packets += tr.Count()
		bytes += len(tr.Data)
	}
	t.received.Packets.Add(uint64(packets))
	t.received.Bytes.Add(uint64(bytes))
	return len(l.batch.Trains)
}

// allFailed returns the error if no leg is left, or nil.
func (t *Transport) allFailed() error {
	var errs []error
	for _, l := range t.legs {
		if l.failed == nil {
			return nil
		}
		errs = append(errs, l.failed)
	}
	return join(errs...)
}

// Release implements transport.Transport. It panics when the train was released before.
func (t *Transport) Release(tr *transport.Train) {
	e := t.leases.find(tr.Lease)
	if e == nil {
		if !t.closing.Load() {
			panic("legs: train released twice, or never lent")
		}
		return
	}
	l := t.legs[e.leg]
	l.reclaim()
	l.Release(&e.inner)
	e.used = false
	t.leases.free = append(t.leases.free, uint32(tr.Lease))
	t.lent.Released()
}

// end implements Poll after Close.
func (t *Transport) end() error {
	if t.done.Load() {
		return errClosed
	}
	for _, l := range t.legs {
		if !l.ended && l.helper.idle() {
			l.batch.Trains = l.trains[:0:0]
			l.ended = errors.Is(l.Poll(&l.batch), net.ErrClosed)
		}
		if !l.ended {
			return nil
		}
	}
	for _, l := range t.legs {
		l.helper.stop()
	}
	t.leases = leases{}
	t.done.Store(true)
	return errClosed
}
