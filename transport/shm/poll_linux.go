package shm

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/prefetch"
	"github.com/fanfaremq/fanfare/transport"
)

// Poll implements transport.Transport.
func (t *Transport) Poll(b *transport.Batch) error {
	b.Trains, b.Events = b.Trains[:0], b.Events[:0]
	if t.closing.Load() {
		return t.end()
	}
	t.scanIfNeeded()
	if t.discoverable.polled() && t.discoverable.isTime(time.Now()) {
		t.checkDiscoverable()
	}
	b.Events = t.events.Take(b.Events)
	room := t.lent.Room(min(cap(b.Trains), batch))
	t.fetchAll(b, room)
	queued := 0
	if len(b.Trains) == room {
		queued = laneSlots * len(*t.known.Load())
	}
	b.More = t.round.EndPoll(len(b.Trains), queued)
	if len(b.Trains) == 0 {
		return nil
	}
	packets, bytes := 0, 0
	for i := range b.Trains {
		packets += b.Trains[i].Count()
		bytes += len(b.Trains[i].Data)
	}
	t.lent.Lent(len(b.Trains))
	t.received.Packets.Add(uint64(packets))
	t.received.Bytes.Add(uint64(bytes))
	t.received.Calls.Add(1)
	return nil
}

// checkDiscoverable reports, once, that new endpoints cannot discover this one. Close removes the files, too.
func (t *Transport) checkDiscoverable() {
	if err := t.discoverable.check(); err != nil && !t.closing.Load() {
		t.discoverable.reported = true
		t.events.Post(transport.Event{Kind: transport.Undiscoverable, Err: err})
	}
}

// fetchAll reads up to room trains from all peers, and drops peers that have ended.
func (t *Transport) fetchAll(b *transport.Batch, room int) {
	t.fetching.Lock()
	defer t.fetching.Unlock()
	all := *t.known.Load()
	t.turn++
	for i := range all {
		p := all[(t.turn+uint(i))%uint(len(all))]
		t.fetch(p, b, room)
		if p.gone.Load() && p.lentOut == 0 && !t.waits(p) {
			t.forget(p)
		}
	}
}

// waits reports whether a train of a peer is waiting. Under fetching.
func (t *Transport) waits(p *peer) bool {
	if p.bad.Load() || p.starved.Load() {
		return false
	}
	lane, ok := p.findLane(t.own.id)
	return ok && p.opened(lane) && isCurrent(p.load(ringAt(lane, p.next)+8), p.next)
}

// countDropped counts n more packets that a peer has dropped in its lane to us, when the entries after them are read.
// Under fetching.
func (t *Transport) countDropped(p *peer, n uint64) {
	if n <= 1<<62 { // otherwise it is invalid
		t.received.Overflow.Add(n)
		p.dropped += n
	}
}

// drained counts drops after the last entry of a lane. Under fetching.
func (t *Transport) drained(p *peer, lane int) {
	if n := p.load(droppedAt(lane)); n > p.dropped {
		t.countDropped(p, n-p.dropped)
	}
}

// entry returns the next entry of a peer, if there is one. Under fetching.
func (t *Transport) entry(p *peer) (e entry, ok bool) {
	if !t.waits(p) || !t.canReturn(p) {
		return entry{}, false
	}
	at := ringAt(int(p.lane.Load()), p.next)
	e, err := parseEntry(p.load(at), p.load(at+8))
	if err != nil {
		p.markBad()
		return entry{}, false
	}
	if n := int16(e.dropped - uint16(p.dropped)); n > 0 {
		t.countDropped(p, uint64(n))
	}
	return e, true
}

// canReturn reports whether memory for positions to return to a peer is allocated. If not, the next scan tries again.
// Under fetching.
func (t *Transport) canReturn(p *peer) bool {
	err := t.own.backReturns(p.slot)
	if err != nil {
		p.starved.Store(true)
		t.received.Errors.Add(1)
		t.scanAgain()
	}
	return err == nil
}

// fetch reads up to room trains of a peer into the batch, and no more entries than a lane has: a peer that keeps
// writing entries of other groups must not occupy the loop. Under fetching.
func (t *Transport) fetch(p *peer, b *transport.Batch, room int) {
	for from := p.next; len(b.Trains) < room && p.next-from < laneSlots; p.next++ {
		e, ok := t.entry(p)
		if !ok {
			if p.next != from && !p.bad.Load() {
				t.drained(p, int(p.lane.Load()))
			}
			return
		}
		if e.chunk == void {
			continue
		}
		if e.group != transport.Unicast && (!t.has(e.group) || !t.joined(e.group)) {
			t.returnPosition(p, p.next) // the group was left meanwhile
			continue
		}
		if !t.lendTrain(p, e, b) {
			return
		}
	}
}

// lend adds a train to the batch: in place, or as a copy if the file is another user's. Under fetching.
func (t *Transport) lendTrain(p *peer, e entry, b *transport.Batch) bool {
	tr := transport.Train{SegmentSize: e.size, Group: e.group, From: transport.Source(p.id)}
	at := e.at()
	if p.otherUser {
		i, err := t.copies.alloc()
		if err != nil {
			t.received.Errors.Add(1)
			t.returnPosition(p, p.next)
			return true
		}
		tr.Data, tr.Lease = t.copies.memory(i, e.bytes), leaseCopy|uint64(i)
		if !p.copy(tr.Data, at) {
			t.copies.put(i)
			p.markBad()
			return false
		}
		t.returnPosition(p, p.next)
	} else {
		tr.Data = p.mem[at : at+e.bytes : at+e.bytes]
		prefetch.ToRead(&tr.Data[0], min(e.bytes, line)) // loads it from the writer's cache before the loop reads it
		tr.Lease = uint64(p.slot)<<32 | uint64(uint32(p.next))
		p.lent[p.next&laneMask] = true
		p.lentOut++
		t.bySlot[p.slot] = p
	}
	b.Trains = append(b.Trains, tr)
	return true
}

// leaseCopy marks the lease of a copy; other leases are a slot and a position.
const leaseCopy = 1 << 63

// returnPosition returns a position to a peer. Under fetching.
func (t *Transport) returnPosition(p *peer, pos uint64) {
	*plain[uint32](t.own.mem, returnsAt(p.slot, p.returnCount)) = uint32(pos)
	p.returnCount++
	word(t.own.mem, returnedAt(p.slot)).Store(p.returnCount)
}

// Release implements transport.Transport. It panics when the train was released before.
func (t *Transport) Release(tr *transport.Train) {
	if t.done.Load() {
		return
	}
	t.lent.Released()
	if tr.Lease&leaseCopy != 0 {
		t.copies.put(uint32(tr.Lease))
		return
	}
	p := t.bySlot[tr.Lease>>32%lanes]
	pos := tr.Lease & laneMask
	if p == nil || !p.lent[pos] {
		panic("shm: train released twice, or never lent")
	}
	p.lent[pos] = false
	p.lentOut--
	t.fetching.Lock()
	t.returnPosition(p, uint64(uint32(tr.Lease)))
	t.fetching.Unlock()
}

// find returns the peer of a source, nil if it has ended. Loop only.
func (t *Transport) find(from transport.Source) *peer {
	for _, p := range *t.known.Load() {
		if p.id == uint64(from) {
			return p
		}
	}
	return nil
}

// Retain implements transport.Transport.
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	if t.closing.Load() {
		return 0, errClosed
	}
	p := t.find(from)
	if p == nil {
		return 0, errNoPeer
	}
	to, err := t.peers.Retain(p.id, p)
	if err != nil {
		t.received.PeersRefused.Add(1)
		return 0, fmt.Errorf("shm: %w", err)
	}
	return to, nil
}

// Forget implements transport.Transport.
func (t *Transport) Forget(p transport.Peer) { t.peers.Forget(p) }

// SourceAddress implements transport.Transport: "shm://name#4711.9f3c", a process and one of its endpoints.
func (t *Transport) SourceAddress(from transport.Source) string {
	if p := t.find(from); p != nil && !t.closing.Load() {
		return p.address(t.cfg.Name)
	}
	return ""
}

// PeerAddress implements transport.Transport.
func (t *Transport) PeerAddress(p transport.Peer) string {
	if to := t.peers.Get(p); to != nil && !t.closing.Load() {
		return (*to).address(t.cfg.Name)
	}
	return ""
}
