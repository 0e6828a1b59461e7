package sealed

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// lease is the record of an inner train, of which parts are lent.
type lease struct {
	inner transport.Train
	refs  int    // lent parts, plus one while more may follow
	gen   uint32 // counts uses, to detect a stale lease
	copy  []byte // of its packets, if those of inner are read-only
}

// leases is a table of leases. Index and generation of a lease are the Lease and the From of its trains.
type leases struct {
	all  []lease
	free []uint32
}

func (x *leases) add(tr transport.Train) uint32 {
	if len(x.free) == 0 {
		x.all = append(x.all, lease{})
		x.free = append(x.free, uint32(len(x.all)-1))
	}
	i := x.free[len(x.free)-1]
	x.free = x.free[:len(x.free)-1]
	e := &x.all[i]
	*e = lease{inner: tr, refs: 1, gen: e.gen + 1, copy: e.copy}
	return i
}

func (x *leases) token(i uint32) uint64 { return uint64(x.all[i].gen)<<32 | uint64(i) }

// find returns the lease for a Lease or From, or nil if it is released.
func (x *leases) find(token uint64) (uint32, *lease) {
	i := uint32(token)
	if int(i) >= len(x.all) || x.all[i].gen != uint32(token>>32) || x.all[i].refs == 0 {
		return 0, nil
	}
	return i, &x.all[i]
}

// drop removes one reference to a lease, and ends the lease with the last.
func (t *Transport) drop(i uint32) {
	e := &t.leases.all[i]
	if e.refs--; e.refs == 0 {
		t.inner.Release(&e.inner)
		t.leases.free = append(t.leases.free, i)
	}
}

// splitting is the position up to which the trains of the inner transport have been opened.
type splitting struct {
	train  int // index of the train being opened
	packet int // index of its next packet; 0: the train is not begun
	count  int
	lease  uint32
}

func (s *splitting) more(trains int) bool { return s.train < trains }

// Poll implements transport.Transport.
func (t *Transport) Poll(b *transport.Batch) error {
	b.Trains, b.Events = b.Trains[:0], b.Events[:0]
	if t.closing.Load() {
		return t.end()
	}
	room := t.lent.Room(min(cap(b.Trains), len(t.trains)))
	if !t.at.more(len(t.batch.Trains)) {
		t.unread.Polls(t.cfg.Now().Sub(t.began), t.batch.More)
		t.batch.Trains, t.batch.Events = t.trains[:0:room], b.Events
		err := t.inner.Poll(&t.batch)
		t.at = splitting{}
		b.Events, t.batch.Events = t.batch.Events, nil
		if err != nil {
			return t.over(err)
		}
	}
	if t.at.more(len(t.batch.Trains)) {
		t.openAll(b, room)
	}
	b.RepliesLost, t.batch.RepliesLost = t.batch.RepliesLost, false
	b.More = t.batch.More || t.at.more(len(t.batch.Trains))
	b.Events = t.notices.drain(b.Events)
	return nil
}

// openAll opens the polled packets, as long as there is room.
func (t *Transport) openAll(b *transport.Batch, room int) {
	now, set := t.cfg.Now(), t.cfg.Keys.Keys()
	if set != t.opener.set {
		t.notices.forget()
	}
	t.opener.begin(set, now, t.unread.For(now.Sub(t.began)))
	t.beginReplies()
	packets, bytes := 0, 0
	for t.at.more(len(t.batch.Trains)) && len(b.Trains) < room {
		n, size := t.openRun(b)
		packets += n
		bytes += size
	}
	t.lent.Lent(len(b.Trains))
	t.known[0].Store(uint64(len(t.opener.senders.all)))
	t.received.Packets.Add(uint64(packets))
	t.received.Bytes.Add(uint64(bytes))
}

// openRun opens the packets of the next train, up to one that does not open, and lends those before it
// as a train. It returns their number, and their bytes. b has room.
func (t *Transport) openRun(b *transport.Batch) (packets, bytes int) {
	at, tr := &t.at, &t.batch.Trains[t.at.train]
	if at.packet == 0 {
		at.count, at.lease = tr.Count(), t.leases.add(*tr)
		if t.copies {
			e := &t.leases.all[at.lease]
			e.copy = append(e.copy[:0], tr.Data...)
			tr.Data = e.copy
		}
	}
	from := at.packet
	for at.packet < at.count && t.openPacket(tr, at.packet) {
		at.packet++
	}
	if packets = at.packet - from; packets > 0 {
		t.leases.all[at.lease].refs++
		end := min(at.packet*tr.SegmentSize, len(tr.Data))
		part := *tr
		part.Data = tr.Data[from*tr.SegmentSize : end : end]
		part.Head, part.Tail = headerLen, tagLen
		part.Lease = t.leases.token(at.lease)
		part.From = transport.Source(part.Lease)
		b.Trains = append(b.Trains, part)
		bytes = len(part.Data) - packets*Overhead
	}
	if at.packet++; at.packet >= at.count { // after the packet that did not open
		t.drop(at.lease)
		t.at = splitting{train: at.train + 1}
	}
	return packets, bytes
}

// openPacket opens one packet in place.
func (t *Transport) openPacket(tr *transport.Train, i int) bool {
	p := tr.Packet(i)
	var v verdict
	var off time.Duration
	if tr.Group == transport.Unicast {
		v, off = t.openReply(p, t.opener.from)
	} else {
		v = t.opener.open(p, uint32(tr.Group), tr.Leg)
		off = t.opener.offOf(v, p)
	}
	if v == accepted {
		return true
	}
	t.refused[v].Add(1)
	if x, ok := t.notices.shouldReport(v, p); ok {
		t.notices.add(x, t.inner.SourceAddress(tr.From), off)
	}
	return false
}

// polledFrom is the source address of the train being opened.
func (t *Transport) polledFrom() string {
	return t.inner.SourceAddress(t.batch.Trains[t.at.train].From)
}

// beginReplies must be called before opening replies. It reads the keys under the lock, so that an older set cannot
// replace a newer one.
func (t *Transport) beginReplies() {
	t.replies.Lock()
	defer t.replies.Unlock()
	now := t.cfg.Now()
	t.replies.begin(t.cfg.Keys.Keys(), now, t.unread.For(now.Sub(t.began)))
	t.notices.tick(t.replies.elapsed / 60)
}

// openReply opens a reply. off is by how much its sender's clock is ahead, if that is why it was
// refused. from returns its address.
//
// A reply is sent on one leg: a reply received on any leg counts as received on all.
func (t *Transport) openReply(p []byte, from func() string) (v verdict, off time.Duration) {
	t.replies.Lock()
	defer t.replies.Unlock()
	t.replies.from = from
	v = t.replies.open(p, unicastIndex, 0)
	t.known[1].Store(uint64(len(t.replies.senders.all)))
	return v, t.replies.offOf(v, p)
}

// Release implements transport.Transport. It panics when the train was released before.
func (t *Transport) Release(tr *transport.Train) {
	i, e := t.leases.find(tr.Lease)
	if e == nil {
		if !t.closing.Load() {
			panic("sealed: train released twice, or never lent")
		}
		return
	}
	t.lent.Released()
	t.drop(i)
}

// Retain implements transport.Transport.
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	_, e := t.leases.find(uint64(from))
	if e == nil {
		return 0, fmt.Errorf("sealed: %w: the train has been released", transport.ErrNoPeer)
	}
	return t.inner.Retain(e.inner.From)
}

// SourceAddress implements transport.Transport.
func (t *Transport) SourceAddress(from transport.Source) string {
	if _, e := t.leases.find(uint64(from)); e != nil {
		return t.inner.SourceAddress(e.inner.From)
	}
	return ""
}

// end implements Poll after Close. Packets polled before are dropped.
func (t *Transport) end() error {
	if t.ended.Load() {
		return errClosed
	}
	if !t.ending.Load() || !t.leaving.Over() {
		return nil
	}
	t.batch.Trains = t.trains[:0:0]
	t.at = splitting{}
	if err := t.inner.Poll(&t.batch); err != nil {
		return t.over(err)
	}
	return nil
}

// over handles an error of the inner Poll, which is final. Memory is freed when Close was called.
func (t *Transport) over(err error) error {
	if !t.closing.Load() || !t.ending.Load() || !errors.Is(err, net.ErrClosed) {
		return err
	}
	t.ended.Store(true)
	t.leases = leases{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, mem := range t.left {
		t.inner.Free(mem)
	}
	t.left = nil
	for s := range t.senders {
		s.abandon()
	}
	if t.cfg.Closed != nil {
		t.cfg.Closed()
	}
	return err
}
