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
//     provider make it; Reply sends by it (peer.go, handles.go).
//  5. Where no group was ever joined, only replies arrive, and senders may read
//     them without the loop (replies.go).
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
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/events"
	"github.com/fanfaremq/fanfare/transport/internal/lend"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// Sizes of batches.
const (
	// batch is the maximum number of packets that one Poll returns: completions polled at once.
	batch = 64
	// maxTrain is the maximum number of packets posted at once.
	maxTrain = 64
)

// Transport is an endpoint. See package transport for which goroutine may call which method.
type Transport struct {
	cfg    Config
	caps   transport.Capabilities
	addrs  []rdma.Addr // of the groups
	local  rdma.Addr   // of the port
	events events.Queue
	verbs  verbs
	sq     sendQueue
	memory memory
	wait   waiter

	closing atomic.Bool // Close was called, or an error ends the transport: no new operation begins
	done    atomic.Bool // Poll has reported the end

	// Loop only.
	rq       recvQueue
	lent     lend.Limit
	members  memberships
	peers    *peers.Table[source, peer]
	closer   closer
	recovery recovery
	handles  handles
	spin     spin
	port     portWatch

	routes  []atomic.Pointer[route] // by group; destination of its senders
	senders senders
	joined  atomic.Bool // a group was ever joined as receiver
	counts  counts
}

// memberships are the memberships of all groups, as receiver and as sender (member.go). Loop only.
type memberships struct {
	receivers []*member // by group; nil: never joined
	senders   []*member // by group; nil: never a sender
	count     int       // number of non-nil members in both lists
	todo      []*member // members with pending work for Poll
	base      uint32    // the lower bits of the first group's MGID
	fellBack  bool      // it was logged that send-only was refused
	// chance randomizes delays, so that hosts do not act at the same time. Its seed is the port and the queue pair, so
	// that hosts differ and runs in virtual time are repeatable.
	chance *rand.Rand
}

// senders are the open senders.
type senders struct {
	mu      sync.Mutex
	all     map[*Sender]struct{} // under mu
	inGroup map[int]int          // under mu; number of senders of each group
	changed []int                // under mu; groups with new or closed senders
	dirty   atomic.Bool          // changed is not empty
}

// counts are the counters of Stats, without open senders.
type counts struct {
	sent            tally.Sent // Replies, and Senders that are closed
	received        tally.Received
	sendOnlyRefused atomic.Uint64
	drops           portDrops
	queueFull       atomic.Uint64 // stats.Transport.ReceiveQueueFull
}

// verbs are the transport's verbs objects.
type verbs struct {
	ch         rdma.EventChannel
	rx, tx     rdma.ID // tx has no queue pair
	pd         rdma.PD
	comp       rdma.CompChannel
	recv, send rdma.CQ
	qp         rdma.QP
	drops      rdma.DropCounter // qp, if it is one
	local      rdma.Local
	mtu        int
}

var _ transport.Transport = (*Transport)(nil)

var (
	errClosed = fmt.Errorf("ud: %w", net.ErrClosed)
	errNoPeer = fmt.Errorf("ud: %w", transport.ErrNoPeer)
)

// Capabilities implements transport.Transport.
func (t *Transport) Capabilities() transport.Capabilities { return t.caps }

// GroupAddress implements transport.Transport: "ud:239.20.0.3". It is the same
// on every provider, though the MGID is not. docs/protocol §17.3.
func (t *Transport) GroupAddress(group int) string {
	if group < 0 || group >= len(t.addrs) {
		return ""
	}
	return "ud:" + t.addrs[group].String()
}

// GroupAddr is the address with which a group is joined.
func (t *Transport) GroupAddr(group int) rdma.Addr { return t.addrs[group] }

// Interface is the name of the network interface of the port in use, or of its device if there is none.
func (t *Transport) Interface() string { return cmp.Or(t.port.entry.NetDev, t.port.name) }

// LocalAddr is the address of the port in use.
func (t *Transport) LocalAddr() rdma.Addr { return t.local }

// QPN is the number of the queue pair: together with the port's GID it is the source of packets.
func (t *Transport) QPN() rdma.QPN { return t.verbs.qp.QPN() }

// check returns an error if the transport is closed or has no such group.
func (t *Transport) check(group int) error {
	if t.closing.Load() {
		return errClosed
	}
	if group < 0 || group >= len(t.addrs) {
		return fmt.Errorf("ud: %w: %d of %d", transport.ErrNoSuchGroup, group, len(t.addrs))
	}
	return nil
}

// lowBits are the bits of an MGID that differ between the groups of a range: it contains 28 bits of an IPv4 group
// (rdma.MGIDForIB).
const lowBits = 1<<28 - 1

// groupOf finds the group of a packet; false if it is not joined, as for a packet that waited while the group was left.
func (t *Transport) groupOf(mgid *rdma.GID) (int, bool) {
	i := int((binary.BigEndian.Uint32(mgid[12:]) - t.members.base) & lowBits)
	if i >= len(t.members.receivers) {
		return 0, false
	}
	m := t.members.receivers[i]
	return i, m != nil && m.mgid == *mgid
}

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
	if t.senders.dirty.Load() || len(t.members.todo) > 0 {
		t.manage()
	}
	if t.recovery.failed {
		t.recoverQueue()
	}
	if t.handles.ready.Load() {
		t.assignHandles()
	}
	b.Events = t.events.Take(b.Events)
	if t.sq.pending() || t.sq.broken.Load() {
		t.reap()
	}
	t.receive(b)
	t.spin.polled(b)
	if t.port.polls++; t.port.polls%pollsBetween == 0 {
		t.watchPort()
	}
	return nil
}

// fail ends the transport with an error, which Poll then returns.
func (t *Transport) fail(err error) {
	if t.closing.Load() {
		return // it is closing already, and closed queue pairs flush
	}
	t.closer.fault = fmt.Errorf("ud: %w", err)
	report.TransportFailed.Log(t.cfg.Logger, "err", err)
	t.Close()
}

// Stats implements transport.Transport. ReceiveOverflow is the provider's count of packets that found no receive posted
// (rdma.DropCounter); without such a counter it is 0, and ReceiveQueueFull counts how often the queue was used up.
// Violations and Unclaimed are counters of the port (rdma.PortAttr).
func (t *Transport) Stats() transport.Stats {
	var s transport.Stats
	t.counts.received.AddTo(&s.Transport)
	s.SendOnlyRefused = t.counts.sendOnlyRefused.Load()
	s.ReceiveQueueFull = t.counts.queueFull.Load()
	t.counts.drops.addTo(&s.Transport)
	if t.verbs.drops != nil {
		s.ReceiveQueueEmpty = t.verbs.drops.Dropped()
		s.ReceiveOverflow += s.ReceiveQueueEmpty
	}
	s.SendErrors = t.sq.lost.Load()
	t.senders.mu.Lock()
	defer t.senders.mu.Unlock()
	t.counts.sent.AddTo(&s.Transport)
	for snd := range t.senders.all {
		snd.sent.AddTo(&s.Transport)
	}
	return s
}
