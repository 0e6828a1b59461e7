// Package ud is the fabric of RDMA multicast: Unreliable Datagram queue pairs in the multicast groups
// of InfiniBand or RoCE. It is written once against package rdma, and runs over each of its providers.
//
// A transport has
//
//   - one queue pair, from which everything is sent and to which replies come;
//   - two ids of the connection manager. One has the queue pair and joins groups
//     as full member: the queue pair is attached when the join's event is
//     retrieved. The other has none, and joins groups to send to them, send-only.
//     Where the subnet manager refuses send-only members it joins as full member:
//     without a queue pair nothing is attached, so that a publisher does not hear
//     its groups either way;
//   - one arena: slots of 40 bytes and the MTU for receives, a staging slot for
//     each entry of the send queue, for what is not sent from memory of Alloc, and
//     what Alloc gives. It is one memory region, until Alloc needs more than
//     Config.Arena; then it grows by few (memory.go).
//
// # The path of a packet
//
//  1. Sender.Send makes a work request for each packet of a train, all in one
//     list, of which the last asks for a completion (send.go, sendqueue.go).
//  2. Poll takes completions of the receive queue in one call, finds the group of
//     each in its GRH area, and lends the slot (recv.go).
//  3. Release puts the slot back. Slots are posted again in batches.
//  4. Retain makes an address handle to the sender from the GRH area, or has the
//     provider make it; Reply sends by it (handles.go).
//  5. Where no group was ever joined, only replies arrive, and senders may read
//     them without the loop (Sender.ReadReplies).
//
// # Memberships
//
// Joining, leaving and closing consist of steps that Poll continues (member.go, close.go). A lost membership, because
// the port went down, the subnet manager requested re-registration, or for another reason, is reported as
// transport.Lost, left, and joined again until that succeeds, which is reported as transport.Joined.
//
// The package starts no goroutine; a provider may have its own for handles. On a stepped fabric all time is virtual.
package ud

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// Transport is an endpoint. See package transport for which goroutine may call which method.
type Transport struct {
	caps     transport.Capabilities
	local    rdma.Addr // of the port
	log      *slog.Logger
	clock    func() time.Duration
	verbs    verbs
	memory   memory
	wait     waiter
	send     *sendQueue
	recv     *recvQueue
	senders  senders
	received tally.Received
	drops    portDrops

	// Loop only, except their counters and what does not change.
	members  *memberships
	handles  *handles
	port     portWatch
	recovery recovery
	closer   closer

	closing atomic.Bool // Close was called, or an error ends the transport: no new operation begins
	done    atomic.Bool // Poll has reported the end
}

// verbs are the transport's verbs objects.
type verbs struct {
	ch         rdma.EventChannel
	rx, tx     rdma.ID // tx has no queue pair
	pd         rdma.PD
	comp       rdma.CompChannel
	recv, send rdma.CQ
	qp         rdma.QP
	local      rdma.Local
}

// Capabilities implements transport.Transport.
func (t *Transport) Capabilities() transport.Capabilities { return t.caps }

// GroupAddress implements transport.Transport: "ud:239.20.0.3". It is the same
// on every provider, though the MGID is not. docs/protocol §17.3.
func (t *Transport) GroupAddress(group int) string {
	if group < 0 || group >= len(t.members.addrs) {
		return ""
	}
	return "ud:" + t.members.addrs[group].String()
}

// GroupAddr is the address with which a group is joined.
func (t *Transport) GroupAddr(group int) rdma.Addr { return t.members.addrs[group] }

// Interface is the name of the network interface of the port in use, or of its device if there is none.
func (t *Transport) Interface() string { return cmp.Or(t.port.entry.NetDev, t.port.name) }

// LocalAddr is the address of the port in use.
func (t *Transport) LocalAddr() rdma.Addr { return t.local }

// QPN is the number of the queue pair: together with the port's GID it is the source of packets.
func (t *Transport) QPN() rdma.QPN { return t.verbs.qp.QPN() }

// Poll implements transport.Transport.
func (t *Transport) Poll(b *transport.Batch) error {
	b.Trains, b.Events = b.Trains[:0], b.Events[:0]
	if t.closing.Load() {
		return t.end()
	}
	select {
	case <-t.verbs.ch.Ready():
		t.retrieve()
	default:
	}
	if t.members.pending() {
		t.members.manage()
	}
	if t.send.inError {
		t.fail(t.recovery.resume())
	}
	if t.handles.ready.Load() {
		t.handles.assign()
	}
	b.Events = t.members.events.Take(b.Events)
	if t.send.pending() || t.send.broken.Load() {
		t.restart(t.recovery.reap())
	}
	missing, fault := t.recv.receive(b, t.members)
	if fault != nil {
		t.restart(fault) // without a lock, because it logs, which calls user code
	}
	if missing {
		t.fail(t.recovery.repost(t.recv.together))
	}
	t.recv.spinning = len(b.Trains) == 0 && len(b.Events) == 0
	if t.port.polls++; t.port.polls%pollsBetween == 0 {
		t.watchPort()
	}
	return nil
}

// restart begins to restart the queue pair after a fault that this repairs. Others end the transport.
func (t *Transport) restart(fault error) {
	if fault != nil && !t.closing.Load() {
		t.fail(t.recovery.begin(fault))
	}
}

// retrieve handles the events of the connection manager. Retrieving an event of a join attaches the queue pair.
func (t *Transport) retrieve() {
	for {
		ev, err := t.verbs.ch.TryGetEvent()
		if err != nil {
			if !errors.Is(err, syscall.EAGAIN) {
				t.fail(fmt.Errorf("connection manager: %w", err))
			}
			return
		}
		// First, because leaving waits for it. The event stays valid.
		_ = ev.Ack()
		m, _ := ev.Context.(*member)
		switch {
		case ev.Type == rdma.EventDeviceRemoval:
			t.fail(fmt.Errorf("device of %v: %w", t.local, ev.Err()))
		case m == nil: // an event of the ids themselves: ignored
		case t.closing.Load(): // all groups are being left
		case ev.Type == rdma.EventMulticastJoin:
			m.joined(ev)
		case ev.Type == rdma.EventMulticastError:
			m.failed(ev.Err())
		}
	}
}

// watchPort checks the port if that is due.
func (t *Transport) watchPort() {
	if !t.closing.Load() && t.port.watch() {
		t.members.portChanged()
	}
}

// Stats implements transport.Transport. ReceiveOverflow is the provider's count of packets that found no receive posted
// (rdma.DropCounter); without such a counter it is 0, and ReceiveQueueFull counts how often the queue was used up.
// Violations and Unclaimed are counters of the port (rdma.PortAttr).
func (t *Transport) Stats() transport.Stats {
	var s transport.Stats
	t.received.AddTo(&s.Transport)
	s.SendOnlyRefused = t.members.fallbacks.Load()
	s.ReceiveQueueFull = t.recv.overruns.Load()
	t.drops.addTo(&s.Transport)
	if d := t.recv.drops; d != nil {
		s.ReceiveQueueEmpty = d.Dropped()
		s.ReceiveOverflow += s.ReceiveQueueEmpty
	}
	s.SendErrors = t.send.lost.Load()
	t.handles.sent.AddTo(&s.Transport)
	t.senders.addTo(&s)
	return s
}

// check returns an error if the transport is closed or has no such group.
func (t *Transport) check(group int) error {
	if t.closing.Load() {
		return errClosed
	}
	if n := len(t.members.addrs); group < 0 || group >= n {
		return fmt.Errorf("ud: %w: %d of %d", transport.ErrNoSuchGroup, group, n)
	}
	return nil
}

// Join implements transport.Transport.
func (t *Transport) Join(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	t.recv.groups.Store(true)
	t.members.join(group)
	return nil
}

// Leave implements transport.Transport.
func (t *Transport) Leave(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	t.members.leave(group)
	return nil
}

// NewSender implements transport.Transport. The next Poll begins to join the group, send-only.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	if err := t.check(group); err != nil {
		return nil, err
	}
	s := &Sender{
		senders: &t.senders, group: group, route: &t.senders.routes[group], queue: t.send, memory: &t.memory, replies: t.recv,
		maxPacket: t.caps.MaxPacket, ending: &t.closing,
	}
	t.senders.add(s)
	return s, nil
}

// Release implements transport.Transport. It panics when the train was released before.
func (t *Transport) Release(train *transport.Train) {
	if !t.done.Load() {
		t.recv.release(train.Lease)
	}
}

// Retain implements transport.Transport. It creates an address handle from the packet's GRH area, or begins to.
func (t *Transport) Retain(from transport.Source) (p transport.Peer, err error) {
	if t.closing.Load() {
		return 0, errClosed
	}
	s, mem := t.recv.packet(uint64(from))
	if s == nil {
		return 0, fmt.Errorf("ud: source %d does not belong to a lent train", from)
	}
	attr, err := rdma.ReplyAHAttr(t.verbs.local, &s.wc, mem)
	if err != nil {
		err = named("reply address", err)
	} else {
		p, err = t.handles.retain(&s.wc, attr)
	}
	if err != nil {
		t.received.PeersRefused.Add(1)
	}
	return p, err
}

// Forget implements transport.Transport.
func (t *Transport) Forget(p transport.Peer) {
	if !t.done.Load() {
		t.handles.forget(p)
	}
}

// Reply implements transport.Transport. The packet is copied, and may wait for the peer's address handle.
func (t *Transport) Reply(p transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	return t.handles.reply(p, packet)
}

// SourceAddress implements transport.Transport: "[fe80::2:c903:0:1]:qp17".
func (t *Transport) SourceAddress(from transport.Source) string {
	s, mem := t.recv.packet(uint64(from))
	if s == nil || t.closing.Load() {
		return ""
	}
	h, ok := rdma.ParseGRH(t.verbs.local.LinkLayer, mem)
	if !ok {
		return ""
	}
	return address{h.Src, s.wc.SrcQPN}.String()
}

// PeerAddress implements transport.Transport.
func (t *Transport) PeerAddress(p transport.Peer) string { return t.handles.address(p) }

// Alloc implements transport.Transport. The memory is registered with the device, and its pages are locked.
func (t *Transport) Alloc(bytes int) ([]byte, error) {
	mem, err := t.memory.alloc(bytes)
	return mem, named("allocate", err)
}

// Free implements transport.Transport.
func (t *Transport) Free(mem []byte) { t.memory.release(mem) }
