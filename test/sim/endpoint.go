package sim

import (
	"bytes"
	"fmt"
	"math/bits"
	"net"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// endpoint is a process's transport over the simulated network. Memory of received packets is overwritten as soon as
// the loop has returned it, and memory of sent packets must not change until it is completed.
type endpoint struct {
	s       *sim
	p       *process
	caps    transport.Capabilities
	only    int           // 1 or 2: its only leg; 0: all
	buffer  int           // packets in the receive queue
	wake    time.Duration // from the first packet to the poll
	service time.Duration // processing time of a packet
	sends   func(by *sender, t *transport.Outbound, packets [][]byte)
	replies func(packet []byte)
	reads   func(packet []byte, unicast bool, leg int)
	refuse  Ratio // share of allocations that are refused
	readers bool  // senders read replies

	rx     []received
	unread int // packets that the current round has still to read
	polled int // packets of this turn
	lent   []loan
	spare  [][]byte
	free   []uint64 // unused indexes of lent
	events []transport.Event
	peers  []peer
	joined bool
	woken  bool
	closed bool
	egress egress
}

// received is a packet in the receive queue.
type received struct {
	p       *packet
	unicast bool
}

// loan is a packet that was lent to the loop.
type loan struct {
	mem  []byte
	out  bool
	kept bool // past the next poll
}

// peer is a source that the loop replies to.
type peer struct {
	from uint64
	refs int
}

// egress is the send queue.
type egress struct {
	queue []outgoing
	free  reliable.Instant // when the last packet has been sent
	full  bool             // the last train did not fit
}

// outgoing is a packet in memory that the network still uses.
type outgoing struct {
	by   *sender
	src  []byte
	copy *packet
	done reliable.Instant
}

// newEndpoint returns an endpoint for packets of that size.
func (s *sim) newEndpoint(p *process, packetSize int) *endpoint {
	return &endpoint{s: s, p: p, buffer: 4096, caps: transport.Capabilities{
		Name: "sim", Groups: 1, MaxPacket: maxPacket, PacketSize: packetSize, MaxTrain: 1, MaxTrainBytes: packetSize,
		Batch: 16, ReceiveCapacity: 4096, Checked: !s.o.Checksum,
	}}
}

// maxPacket is larger than all packets of publishers.
const maxPacket = 9000

// transport returns the endpoint with as many legs as it has.
func (e *endpoint) transport() transport.Transport {
	if e.s.second == nil || e.only > 0 {
		return e
	}
	return &legged{e}
}

// legged is an endpoint with two legs.
type legged struct{ *endpoint }

func (e *legged) LegAddress(leg, _ int) string { return groupAddresses[leg] }

func (e *legged) Stats() transport.Stats {
	return transport.Stats{Legs: []stats.Leg{{URL: groupAddresses[0]}, {URL: groupAddresses[1]}}}
}

// groupAddresses are the addresses of the group on both legs.
var groupAddresses = [2]string{"sim/0", "sim/1"}

// put puts a packet into the receive queue, if there is room.
func (e *endpoint) put(x *packet, unicast bool) bool {
	switch {
	case e.closed || !unicast && (!e.joined || !e.on(x.leg())):
		e.s.pool.drop(x)
		return false
	case len(e.rx) >= e.buffer:
		e.s.net.count.Overflowed++
		e.s.pool.drop(x)
		return false
	}
	if x = e.s.open(e.p.index, unicast, x); x == nil {
		return false
	}
	e.rx = append(e.rx, received{x, unicast})
	return true
}

// on reports whether the endpoint has that leg.
func (e *endpoint) on(leg int) bool { return e.s.second == nil || e.only == 0 || e.only == 1+leg }

func (e *endpoint) Capabilities() transport.Capabilities { return e.caps }
func (e *endpoint) GroupAddress(int) string              { return groupAddresses[max(0, e.only-1)] }

func (e *endpoint) Alloc(n int) ([]byte, error) {
	if e.refuse > 0 && e.s.net.draw(e.refuse) {
		return nil, errRefused
	}
	return e.s.arena.get(n), nil
}

var errRefused = fmt.Errorf("sim: no packet memory")

func (e *endpoint) Free([]byte) {}

func (e *endpoint) Join(group int) error {
	e.joined = true
	e.event(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Joined})
	return nil
}

func (e *endpoint) Leave(group int) error {
	e.joined = false
	e.event(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Left})
	return nil
}

func (e *endpoint) event(x transport.Event) { e.events, e.woken = append(e.events, x), true }

func (e *endpoint) Poll(b *transport.Batch) error {
	b.Trains, b.Events, b.More = b.Trains[:0], b.Events[:0], false
	if e.closed { // lent memory is invalid
		for _, x := range e.lent {
			spoil(x.mem)
		}
		return net.ErrClosed
	}
	b.Events, e.events = append(b.Events, e.events...), e.events[:0]
	if e.unread == 0 {
		e.unread = len(e.rx)
	}
	for i := range e.lent {
		e.lent[i].kept = e.lent[i].out
	}
	n := min(e.unread, cap(b.Trains), e.caps.Batch)
	for _, x := range e.rx[:n] {
		b.Trains = append(b.Trains, e.lend(x))
		if e.reads != nil {
			e.reads(x.p.b, x.unicast, x.p.leg())
		}
		e.s.pool.drop(x.p)
	}
	e.rx = append(e.rx[:0], e.rx[n:]...)
	e.unread -= n
	e.polled += n
	b.More = e.unread > 0
	return nil
}

// lend returns the packet as a train in memory that is lent.
func (e *endpoint) lend(x received) transport.Train {
	var mem []byte
	if n := len(e.spare); n > 0 {
		mem, e.spare = e.spare[n-1], e.spare[:n-1]
	}
	mem = append(mem[:0], x.p.b...)
	lease := uint64(len(e.lent))
	if n := len(e.free); n > 0 {
		lease, e.free = e.free[n-1], e.free[:n-1]
		e.lent[lease] = loan{mem: mem, out: true}
	} else {
		e.lent = append(e.lent, loan{mem: mem, out: true})
	}
	tr := transport.Train{
		Data: mem, SegmentSize: len(mem), From: transport.Source(x.p.from), Lease: lease, Leg: uint8(x.p.leg()),
	}
	if x.unicast {
		tr.Group = transport.Unicast
	}
	return tr
}

// spoil overwrites memory that the loop must not read any more.
func spoil(b []byte) {
	for i := 0; i < len(b); i += 16 {
		b[i] ^= 0xa5
	}
}

func (e *endpoint) Release(t *transport.Train) {
	x := &e.lent[t.Lease]
	if !x.out {
		e.s.fail("node %d returns a packet twice", e.p.index)
		return
	}
	spoil(x.mem)
	if x.kept {
		e.s.report.Kept++
	}
	e.spare = append(e.spare, x.mem)
	*x = loan{}
	e.free = append(e.free, t.Lease)
}

func (e *endpoint) Wait(time.Duration) error { panic("sim: Wait") }
func (e *endpoint) Wake()                    { e.woken = true }

func (e *endpoint) Retain(from transport.Source) (transport.Peer, error) {
	for i := range e.peers {
		if e.peers[i].from == uint64(from) {
			e.peers[i].refs++
			return transport.Peer(1 + i), nil
		}
	}
	e.peers = append(e.peers, peer{uint64(from), 1})
	return transport.Peer(len(e.peers)), nil
}

func (e *endpoint) Forget(p transport.Peer) {
	if x := &e.peers[p-1]; x.refs == 0 {
		e.s.fail("node %d releases peer %d once too often", e.p.index, x.from)
	} else {
		x.refs--
	}
}

func (e *endpoint) SourceAddress(from transport.Source) string {
	return fmt.Sprint("sim#", uint64(from))
}

func (e *endpoint) PeerAddress(p transport.Peer) string {
	return e.SourceAddress(transport.Source(e.peers[p-1].from))
}

func (e *endpoint) Reply(p transport.Peer, b []byte) error {
	if e.closed {
		return net.ErrClosed
	}
	if int(p) > len(e.peers) || e.peers[p-1].refs <= 0 {
		e.s.fail("node %d sends to peer %d, which it has released", e.p.index, p)
		return transport.ErrNoPeer
	}
	if e.replies != nil {
		e.replies(b)
	}
	to := e.peers[p-1].from
	if e.s.o.Trace != nil {
		e.s.trace("node %d to %d: %v", e.p.index, to, describe{b})
	}
	number := int(e.p.index) - len(e.s.publishers)
	if publisher, leg := addressed(to); publisher < len(e.s.publishers) && number >= 0 {
		e.s.networks()[leg].unicast(e.s.now, number, publisher, e.s.seal(e.p.index, true, b)[0])
	}
	return nil
}

func (e *endpoint) Stats() transport.Stats { return transport.Stats{} }

func (e *endpoint) Close() error {
	e.kill()
	e.woken = true
	return nil
}

// kill drops everything.
func (e *endpoint) kill() {
	e.closed = true
	for _, x := range e.rx {
		e.s.pool.drop(x.p)
	}
	for _, o := range e.egress.queue {
		e.s.pool.drop(o.copy)
	}
	e.rx, e.egress.queue = e.rx[:0], e.egress.queue[:0]
}

// sender sends to the group.
type sender struct {
	e         *endpoint
	completed uint64
}

func (e *endpoint) NewSender(group int) (transport.Sender, error) {
	e.event(transport.Event{Group: group, Role: transport.RoleSender, State: transport.Joined})
	if e.readers {
		return &replyReader{sender: sender{e: e}}, nil
	}
	return &sender{e: e}, nil
}

// replyReader is a sender that also reads replies (transport.ReplyReader).
type replyReader struct {
	sender
	from uint64 // source of the reply that is being read
}

func (x *replyReader) ReadReplies(handle func(packet []byte)) {
	e := x.e
	e.rx = slices.DeleteFunc(e.rx, func(r received) bool {
		if !r.unicast {
			return false
		}
		x.from = r.p.from
		mem := slices.Clone(r.p.b)
		e.reads(mem, true, r.p.leg())
		handle(mem)
		clear(mem) // it is valid during the call only
		e.s.pool.drop(r.p)
		return true
	})
	e.unread = min(e.unread, len(e.rx))
}

func (x *replyReader) ReplyAddress() string { return x.e.SourceAddress(transport.Source(x.from)) }

func (x *sender) Close() error { return nil }

// Send passes packets to the network as far as there is room in the send queue.
func (x *sender) Send(t *transport.Outbound) (int, error) {
	e := x.e
	if e.closed {
		return 0, net.ErrClosed
	}
	e.complete()
	n := t.Count
	if room := e.s.o.Net.Egress; room > 0 {
		n = min(n, max(0, room-len(e.egress.queue)))
	}
	if t.Count > 1 && len(t.Data) > t.Stride*t.Count {
		e.s.fail("node %d: train of %d packets of %d bytes has %d bytes", e.p.index, t.Count, t.Stride, len(t.Data))
	}
	packets := make([][]byte, n)
	for i := range packets {
		packets[i] = t.Data[i*t.Stride:][:t.Lens[i]]
	}
	e.sends(x, t, packets)
	if e.egress.full = n < t.Count; e.egress.full {
		return n, transport.ErrBusy
	}
	return n, nil
}

// send passes a packet b to the network, which carries it sealed. It reports the subscribers that lose it.
func (e *endpoint) send(b, sealed []byte) (leaves reliable.Instant, lost uint64) {
	s, x := e.s, &e.egress
	x.free = max(x.free, s.now)
	if bw := s.o.Net.Bandwidth; bw > 0 {
		x.free += reliable.Instant((int64(len(b)) + s.o.Net.Overhead) * 1e9 / bw)
	}
	return x.free, s.multicast(x.free, int(e.p.index), sealed)
}

// holds records that the network uses the memory of b until done.
func (x *sender) holds(b []byte, done reliable.Instant) {
	if q := &x.e.egress; done > x.e.s.now {
		q.queue = append(q.queue, outgoing{by: x, src: b, copy: x.e.s.pool.get(b, 0), done: done})
	} else {
		x.completed++
	}
}

// complete releases the memory of packets that have left the queue. Their content must be unchanged.
func (e *endpoint) complete() {
	x, n := &e.egress, 0
	for n < len(x.queue) && x.queue[n].done <= e.s.now {
		o := x.queue[n]
		if !bytes.Equal(o.src, o.copy.b) {
			e.s.fail("node %d: a packet changed while the network was sending it", e.p.index)
		}
		e.s.pool.drop(o.copy)
		o.by.completed++
		n++
	}
	if n > 0 {
		x.queue = append(x.queue[:0], x.queue[n:]...)
	}
}

// freed returns when the loop is to be stepped because packets have left the send queue.
func (e *endpoint) freed() reliable.Instant {
	n := len(e.egress.queue)
	switch {
	case n == 0:
		return reliable.Never
	case e.egress.full:
		return e.egress.queue[0].done
	}
	return e.egress.queue[n/2].done
}

// Completed implements transport.Sender.
func (x *sender) Completed() uint64 {
	x.e.complete()
	return x.completed
}

// countLost counts the copies of a new data packet that were lost.
func (r *Report) countLost(lost uint64) {
	if lost > 0 {
		r.LostPackets++
		r.LostCopies += uint64(bits.OnesCount64(lost))
	}
}

// data reports whether b is a data packet, and whether it is a repair.
func dataPacket(b []byte) (data, repair bool) {
	return wire.Type(b[3]) == wire.TypeData, wire.Flags(b[4])&wire.FlagRepair != 0
}
