package shm

import (
	"errors"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// Sender sends to one group.
type Sender struct {
	t        *Transport
	group    int
	section  grace.Section
	closed   atomic.Bool
	accepted uint64
	sent     tally.Sent
	replies  replies
}

var _ transport.Sender = (*Sender)(nil)

// NewSender implements transport.Transport. The sender is ready at once.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	if err := t.check(group); err != nil {
		return nil, err
	}
	s := &Sender{t: t, group: group}
	t.mu.Lock()
	t.senders[s] = struct{}{}
	t.mu.Unlock()
	if t.events.SenderOpened(group) {
		t.waiter.Wake()
	}
	return s, nil
}

// Send implements transport.Sender. It never returns transport.ErrBusy: packets that do not fit into a receiver's lane
// are lost for that receiver and counted there, as in a network; packets without memory are counted here
// (stats.Transport.SendNoMemory).
func (s *Sender) Send(out *transport.Outbound) (int, error) {
	s.section.Enter()
	n, bytes, err := s.send(out)
	s.section.Exit()
	s.accepted += uint64(n)
	if n > 0 {
		s.sent.Packets.Add(uint64(n))
		s.sent.Bytes.Add(uint64(bytes))
		s.sent.Calls.Add(1)
	}
	return n, err
}

func (s *Sender) send(out *transport.Outbound) (packets, bytes int, err error) {
	t := s.t
	if s.closed.Load() || t.closing.Load() {
		return 0, 0, errClosed
	}
	if err := train.Check(out); err != nil {
		s.sent.Errors.Add(1)
		return 0, 0, err
	}
	t.scanIfNeeded()
	for packets < out.Count {
		run, err := train.Next(out, packets, maxPacket, maxTrain, chunkBytes)
		if err != nil {
			s.sent.Errors.Add(1)
			return packets, bytes, err
		}
		e := entry{bytes: run.Bytes, size: run.Size, group: s.group}
		if !t.publishInPlace(e, out, packets, run) {
			t.publishCopy(e, out, packets, run)
		}
		packets += run.Count
		bytes += run.Bytes
	}
	return packets, bytes, nil
}

// publishInPlace publishes a train without copying, if it is in the file.
func (t *Transport) publishInPlace(e entry, out *transport.Outbound, from int, run train.Run) (ok bool) {
	e.chunk, e.off, ok = t.own.chunkOf(out.Data[from*out.Stride:])
	if !ok || e.off+e.bytes > chunkBytes || !run.Packed(out.Stride) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.publish(e, run.Count)
	return true
}

// publishCopy copies a train into a chunk, and publishes that.
func (t *Transport) publishCopy(e entry, out *transport.Outbound, from int, run train.Run) {
	var ok bool
	if e.chunk, ok = t.chunkFor(e.group, run); !ok {
		return
	}
	run.Copy(t.own.chunk(e.chunk, run.Bytes), out, from)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.publish(e, run.Count)
	t.pool.drop(e.chunk)
}

// chunkFor returns a chunk for a train, if an endpoint has joined its group. If there is no memory the train is
// lost for all, and counted.
func (t *Transport) chunkFor(group int, run train.Run) (chunk uint32, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	received := false
	for _, p := range *t.known.Load() {
		if !p.gone.Load() && p.hasJoined(group) {
			received = true
			t.reap(p)
		}
	}
	if !received {
		return 0, false
	}
	chunk, err := t.allocChunk(run.Bytes)
	if err != nil {
		for _, p := range *t.known.Load() {
			if !p.gone.Load() && p.hasJoined(group) {
				t.lose(p, run.Count, err != errAllRead)
			}
		}
	}
	return chunk, err == nil
}

// errAllRead: no chunk is free, because readers hold all.
var errAllRead = errors.New("shm: readers hold all chunks")

// allocChunk returns a chunk with memory for its first bytes. It returns errAllRead, or the error of allocating memory.
// Under mu.
func (t *Transport) allocChunk(bytes int) (chunk uint32, err error) {
	chunk, ok := t.pool.alloc()
	if !ok {
		return 0, errAllRead
	}
	grown, err := t.own.backChunk(chunk, bytes)
	if err != nil {
		if chunk, ok = t.pool.swap(chunk, func(chunk uint32) bool { return t.own.backs(chunk, bytes) }); ok {
			return chunk, nil
		}
		return 0, err
	}
	if grown {
		t.pool.room(t.own.room())
	}
	return chunk, nil
}

// publish pushes a train to all endpoints that have joined its group. Under mu.
func (t *Transport) publish(e entry, packets int) {
	all, readers := *t.known.Load(), 0
	for _, p := range all {
		if p.receives = !p.gone.Load() && p.hasJoined(e.group); p.receives {
			t.reap(p)
			readers++
		}
	}
	for _, p := range all {
		if p.receives {
			t.push(p, e, packets, readers)
		}
	}
}

// push puts an entry into the lane to a peer, or counts its packets as lost. Under mu.
func (t *Transport) push(p *peer, e entry, packets, readers int) {
	if !t.own.rings[p.slot] && !t.openLane(p) {
		t.lose(p, packets, true)
		return
	}
	if !t.pool.admits(p.out, p.depth, readers) {
		t.lose(p, packets, p.out < p.depth && t.pool.noMemory > 0)
		return
	}
	for !p.ringFull() && p.held[p.tail&laneMask] != noChunk { // not returned within a lap: skip the position
		t.append(p, entry{chunk: void})
	}
	if p.ringFull() {
		t.lose(p, packets, false)
		return
	}
	p.held[p.tail&laneMask] = e.chunk
	p.out++
	t.pool.hold(e.chunk)
	t.append(p, e)
	if p.wake(t.fabric) {
		t.rang++
	}
}

// openLane allocates our lane to a peer. If there is no memory a later call tries again. Under mu.
func (t *Transport) openLane(p *peer) bool {
	now := t.now()
	if now-p.noMemoryAt < int64(aliveInterval) {
		return false
	}
	if err := t.own.openLane(p.slot); err != nil {
		p.noMemoryAt = now
		return false
	}
	return true
}

// ringFull reports whether the ring is full: every position is unreturned or was skipped, so the peer may not have
// fetched the next one yet. Under mu.
func (p *peer) ringFull() bool { return p.out+p.voids >= laneSlots }

// append writes an entry. Under mu.
func (t *Transport) append(p *peer, e entry) {
	if was := &p.void[p.tail&laneMask]; *was != (e.chunk == void) {
		if *was = !*was; *was {
			p.voids++
		} else {
			p.voids--
		}
	}
	e.dropped = uint16(word(t.own.mem, droppedAt(p.slot)).Load())
	a, b := e.words(p.tail)
	at := ringAt(p.slot, p.tail)
	*plain[uint64](t.own.mem, at) = a
	word(t.own.mem, at+8).Store(b)
	p.tail++
}

// lose counts packets that a peer does not get. Without memory they are counted here, because a longer queue would not
// help the receiver. Otherwise the peer holds too many trains, and its lane carries the count. Under mu.
func (t *Transport) lose(p *peer, packets int, noMemory bool) {
	if noMemory {
		t.sent.NoMemory.Add(uint64(packets))
	} else {
		word(t.own.mem, droppedAt(p.slot)).Add(uint64(packets))
	}
	t.checkAlive()
}

// reap processes the positions that a peer has returned. Under mu.
func (t *Transport) reap(p *peer) {
	lane, ok := p.findLane(t.own.id)
	if !ok {
		return
	}
	tail := p.load(returnedAt(lane))
	if tail-p.reaped > laneSlots {
		p.markBad()
		return
	}
	for ; p.reaped != tail; p.reaped++ {
		slot := &p.held[p.returned(lane, p.reaped)&laneMask]
		if *slot == noChunk {
			p.markBad()
			return
		}
		t.pool.drop(*slot)
		*slot = noChunk
		p.out--
	}
}

// Completed implements transport.Sender. Sending is synchronous, so it equals the number of packets accepted.
func (s *Sender) Completed() uint64 { return s.accepted }

// Close implements transport.Sender.
func (s *Sender) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	t := s.t
	t.mu.Lock()
	delete(t.senders, s)
	t.sent.Fold(&s.sent)
	t.mu.Unlock()
	t.events.SenderClosed(s.group)
	t.waiter.Wake()
	return nil
}

// Reply implements transport.Transport. A reply to an ended endpoint is lost without an error, as in a network.
func (t *Transport) Reply(to transport.Peer, packet []byte) error {
	t.replying.Enter()
	err := t.reply(to, packet)
	t.replying.Exit()
	return err
}

func (t *Transport) reply(to transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	x := t.peers.Get(to)
	if x == nil {
		return errNoPeer
	}
	if err := train.CheckPacket(len(packet), maxPacket); err != nil {
		return err
	}
	t.sent.Packets.Add(1)
	t.sent.Bytes.Add(uint64(len(packet)))
	t.sent.Calls.Add(1)
	t.scanIfNeeded()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := *x
	if p.gone.Load() {
		return nil
	}
	t.reap(p)
	chunk, err := t.allocChunk(len(packet))
	if err != nil {
		t.lose(p, 1, err != errAllRead)
		return nil
	}
	copy(t.own.chunk(chunk, len(packet)), packet)
	t.push(p, entry{chunk: chunk, bytes: len(packet), size: len(packet), group: transport.Unicast},
		1, len(*t.known.Load()))
	t.pool.drop(chunk)
	return nil
}
