// Package mem is the fabric inside one process: endpoints on the same Network exchange trains through memory. It
// connects goroutines of one program with the same code that connects hosts, and is used to test the upper layers.
//
// A train is copied once into the queue of each member of its group, and is delivered as one train, in the order sent.
// The queue of an endpoint is bounded: trains that find it full are dropped for that endpoint and counted
// (stats.Transport.ReceiveOverflow). Used by one goroutine the fabric is deterministic. It starts no goroutine.
package mem

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/arena"
	"github.com/fanfaremq/fanfare/transport/internal/events"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/inbox"
	"github.com/fanfaremq/fanfare/transport/internal/lend"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/round"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// Transport is an endpoint. See package transport for which goroutine may call which method.
type Transport struct {
	cfg    Config
	net    *Network
	id     uint64 // unique on its network, never reused; the Source of trains
	caps   transport.Capabilities
	in     *inbox.Inbox
	events events.Queue
	// pending reports whether Poll has something to report besides trains.
	pending func() bool

	closing atomic.Bool  // Close was called: no new operation begins
	ending  atomic.Bool  // leaving is complete: Poll may wait for it
	leaving grace.Period // senders that may be copying into in
	done    atomic.Bool  // Poll has reported the end

	// Loop only.
	peers    *peers.Table[uint64, *Transport]
	replying grace.Section
	lent     lend.Limit
	round    round.Round

	mu      sync.Mutex
	senders map[*Sender]struct{}
	arena   arena.Arena

	sent     tally.Sent // Replies, and Senders that are closed
	received tally.Received
}

var _ transport.Transport = (*Transport)(nil)

// Open attaches a new endpoint to a network.
func Open(cfg Config) (*Transport, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	in, err := inbox.New(cfg.QueueTrains+cfg.LendMax+batch, slotBytes)
	if err != nil {
		return nil, fmt.Errorf("mem: receive queue: %w", err)
	}
	t := &Transport{
		cfg: cfg,
		in:  in,
		caps: transport.Capabilities{
			Name: "mem", Groups: cfg.Groups, MaxPacket: cfg.MaxPacket, PacketSize: cfg.PacketSize,
			MaxTrain: maxTrain, MaxTrainBytes: slotBytes, Batch: batch, LendMax: cfg.LendMax,
			ReceiveCapacity: cfg.QueueTrains, GroupsTogether: true, EqualTrains: true, Checked: true,
		},
		peers:   peers.New[uint64, *Transport](cfg.Peers),
		senders: make(map[*Sender]struct{}),
	}
	t.lent = lend.New(cfg.LendMax, batch, &t.received.LendRefused)
	t.pending = func() bool { return t.events.Pending() || t.closing.Load() }
	attach(t, cfg)
	return t, nil
}

// Capabilities implements transport.Transport.
func (t *Transport) Capabilities() transport.Capabilities { return t.caps }

// GroupAddress implements transport.Transport: "mem://name/3".
func (t *Transport) GroupAddress(group int) string {
	if !t.has(group) {
		return ""
	}
	return fmt.Sprintf("mem://%s/%d", t.net.name, group)
}

func (t *Transport) has(group int) bool { return group >= 0 && group < t.cfg.Groups }

// check returns an error if the transport is closed or has no such group.
func (t *Transport) check(group int) error {
	if t.closing.Load() {
		return errClosed
	}
	if !t.has(group) {
		return fmt.Errorf("mem: %w: %d of %d", transport.ErrNoSuchGroup, group, t.cfg.Groups)
	}
	return nil
}

var errClosed = fmt.Errorf("mem: %w", net.ErrClosed)

// Alloc implements transport.Transport.
func (t *Transport) Alloc(bytes int) ([]byte, error) {
	mem, err := t.arena.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("mem: %w", err)
	}
	return mem, nil
}

// Free implements transport.Transport.
func (t *Transport) Free(mem []byte) { t.arena.Free(mem) }

// Join implements transport.Transport. It completes immediately.
func (t *Transport) Join(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	if t.net.join(t, group) {
		t.received.Joins.Add(1)
		t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Joined})
		t.in.Wake()
	}
	return nil
}

// Leave implements transport.Transport. It completes immediately.
func (t *Transport) Leave(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	if t.net.leave(t, group) {
		t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Left})
		t.in.Wake()
	}
	return nil
}

// Poll implements transport.Transport.
func (t *Transport) Poll(b *transport.Batch) error {
	b.Trains, b.Events = b.Trains[:0], b.Events[:0]
	if t.closing.Load() {
		return t.end()
	}
	b.Events = t.events.Take(b.Events)
	packets, bytes := 0, 0
	for room := t.lent.Room(min(cap(b.Trains), batch)); len(b.Trains) < room; {
		item, data, lease, ok := t.in.Next()
		if !ok {
			break
		}
		b.Trains = append(b.Trains, transport.Train{
			Data: data, SegmentSize: item.SegmentSize, Group: item.Group,
			From: transport.Source(item.From), Lease: lease,
		})
		packets += b.Trains[len(b.Trains)-1].Count()
		bytes += len(data)
	}
	b.More = t.round.EndPoll(len(b.Trains), t.in.Unread())
	if packets > 0 {
		t.lent.Lent(len(b.Trains))
		t.received.Packets.Add(uint64(packets))
		t.received.Bytes.Add(uint64(bytes))
		t.received.Calls.Add(1)
	}
	return nil
}

// Release implements transport.Transport. It panics when the train was released before.
func (t *Transport) Release(train *transport.Train) {
	if !t.done.Load() {
		t.in.Release(train.Lease)
		t.lent.Released()
	}
}

// Wait implements transport.Transport. Its timeout is as coarse as Go's timers: 1 ms in an otherwise idle process.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.done.Load() {
		return errClosed
	}
	if !t.closing.Load() {
		t.in.Wait(timeout, t.pending)
	}
	return nil
}

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.in.Wake() }

// Stats implements transport.Transport.
func (t *Transport) Stats() transport.Stats {
	var s transport.Stats
	t.received.AddTo(&s.Transport)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent.AddTo(&s.Transport)
	for snd := range t.senders {
		snd.sent.AddTo(&s.Transport)
	}
	return s
}

// Close implements transport.Transport. The next Poll frees the memory and reports the end, unless a Send on the
// network is copying into it at that time: then a later Poll does.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.arena.Freeze()
	t.net.detach(t, &t.leaving)
	t.ending.Store(true)
	t.in.Wake()
	return nil
}

// end implements Poll after Close.
func (t *Transport) end() error {
	if t.done.Load() {
		return errClosed
	}
	if !t.ending.Load() || !t.leaving.Over() {
		return nil
	}
	t.net.drop(t)
	t.done.Store(true)
	t.in.Free()
	return errClosed
}

// sections adds everything of t that may be copying into another endpoint.
func (t *Transport) sections(p *grace.Period) {
	p.Add(&t.replying)
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.senders {
		p.Add(&s.section)
	}
}
