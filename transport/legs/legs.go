// Package legs is one transport over several others, its legs, that carry the same packets: two network interfaces, two
// ranges of groups, UDP and RoCE. It does not interpret packets.
//
//	Send ──► every leg                     each takes the same bytes
//	Poll ◄── every leg, by turns           Train.Leg says by which one a train came
//	Reply ─► the leg that its source came by
//
// Packets lost on one leg arrive on another. Of several copies the layer above uses the first
// (reliable.Receiver.SetLeg).
//
// A leg that fails ends neither the transport nor a group: a group is lost when no leg has it any more.
// Meanwhile the transport reports the leg by transport.LegLost; a leg on which new endpoints cannot
// discover this one (transport.Unfindable) stays reported until Close.
package legs

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/lend"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// Transport is an endpoint on several legs. See package transport for which goroutine may call which method. Legs
// without a descriptor to wait on have a goroutine each (wait.go), which Poll ends with the transport.
type Transport struct {
	legs []*leg
	caps transport.Capabilities // the minimum of the legs when they were opened, except Name

	closing atomic.Bool  // Close was called
	done    atomic.Bool  // Poll has reported the end
	waits   atomic.Int32 // the leg that Wait itself waits for

	// Loop only.
	lent    lend.Limit
	leases  leases
	peers   *peers.Table[peer, peer]
	members map[member]*membership
	pending []transport.Event // to be reported
	turn    int               // the leg that the next Poll begins with

	mu      sync.Mutex
	senders map[*Sender]struct{} // under mu
	sent    tally.Sent           // by Senders that are closed

	received tally.Received
}

var _ transport.Legged = (*Transport)(nil)

// leg is one of the transports.
type leg struct {
	transport.Transport
	name string
	up   atomic.Bool // see stats.Leg

	unsent atomic.Uint64 // packets that other legs accepted and this one did not
	stuck  atomic.Int32  // senders of which it has accepted nothing for stuckAfter
	// leftStuck: such a sender was closed, and the leg has accepted nothing of others since.
	leftStuck atomic.Bool

	// Loop only.
	batch  transport.Batch
	trains []transport.Train // memory for batch.Trains, which is a prefix of it
	rounds int               // rounds of the leg that must end before ours does
	bad    int               // number of missing memberships and other faults
	lost   bool              // LegLost was reported
	failed error             // why it has ended by itself; nil: it has not
	ended  bool

	poll     transport.Pollable // nil: its Wait cannot be combined with others
	hostedBy *leg               // the leg with a Wait that includes it
	begun    bool               // a Wait with it is in progress
	helper   helper

	reportedStuck bool // it was reported that it accepts nothing
}

// New makes one transport of several legs, which it owns from then on. names has a readable name for each leg. It fails
// if the legs differ in their number of groups.
func New(legs []transport.Transport, names []string) (*Transport, error) {
	if len(legs) < 2 || len(legs) > transport.MaxLegs {
		return nil, fmt.Errorf("%d legs: there must be 2 to %d", len(legs), transport.MaxLegs)
	}
	t := &Transport{
		caps: commonCaps(legs), peers: peers.New[peer, peer](peers.MaxLimit),
		members: make(map[member]*membership), senders: make(map[*Sender]struct{}),
	}
	for i, l := range legs {
		if first, n := legs[0].Capabilities().Groups, l.Capabilities().Groups; n != first {
			return nil, fmt.Errorf("%s has %d groups and %s %d: give all legs the same number (groups= in the URL)", names[0], first, names[i], n)
		}
		x := &leg{Transport: l, name: names[i], trains: make([]transport.Train, t.caps.Batch)}
		x.batch.Events = make([]transport.Event, 0, 16)
		if p, ok := l.(transport.Pollable); ok && p.WaitDescriptor() >= 0 {
			x.poll = p
		}
		x.up.Store(true)
		t.legs = append(t.legs, x)
	}
	t.lent = lend.New(t.caps.LendMax, t.caps.Batch, &t.received.LendRefused)
	return t, nil
}

// commonCaps are capabilities that all legs have.
func commonCaps(legs []transport.Transport) transport.Capabilities {
	c := legs[0].Capabilities()
	names := []string{c.Name}
	for _, l := range legs[1:] {
		o := l.Capabilities()
		names = append(names, o.Name)
		for _, n := range [][2]*int{
			{&c.Groups, &o.Groups}, {&c.MaxPacket, &o.MaxPacket}, {&c.PacketSize, &o.PacketSize}, {&c.MaxTrain, &o.MaxTrain},
			{&c.MaxTrainBytes, &o.MaxTrainBytes}, {&c.Batch, &o.Batch}, {&c.LendMax, &o.LendMax},
			{&c.ReceiveCapacity, &o.ReceiveCapacity},
		} {
			*n[0] = min(*n[0], *n[1])
		}
		c.GroupsTogether, c.SendersApart = c.GroupsTogether || o.GroupsTogether, c.SendersApart && o.SendersApart
		c.EqualTrains, c.GSO, c.GRO = c.EqualTrains && o.EqualTrains, c.GSO && o.GSO, c.GRO && o.GRO
		c.Checked, c.PeersUnchecked = c.Checked && o.Checked, c.PeersUnchecked || o.PeersUnchecked
		c.ReadOnly = c.ReadOnly || o.ReadOnly
	}
	c.Name = strings.Join(names, "+")
	return c
}

// Capabilities implements transport.Transport: capabilities that every leg has.
func (t *Transport) Capabilities() transport.Capabilities {
	c := t.caps
	for _, l := range t.legs {
		o := l.Capabilities()
		c.EqualTrains, c.GSO = c.EqualTrains && o.EqualTrains, c.GSO && o.GSO
	}
	return c
}

// GroupAddress implements transport.Transport: the first leg's.
func (t *Transport) GroupAddress(group int) string { return t.legs[0].GroupAddress(group) }

func (t *Transport) LegAddress(leg, group int) string { return t.legs[leg].GroupAddress(group) }

// Leg is one of the transports, for methods of its type beyond the contract.
func (t *Transport) Leg(i int) transport.Transport { return t.legs[i].Transport }

var errClosed = fmt.Errorf("legs: %w", net.ErrClosed)

// check is the common beginning of calls that name a group.
func (t *Transport) check(group int) error {
	if t.closing.Load() {
		return errClosed
	}
	if group < 0 || group >= t.caps.Groups {
		return fmt.Errorf("legs: %w: %d of %d", transport.ErrNoSuchGroup, group, t.caps.Groups)
	}
	return nil
}

// Alloc implements transport.Transport. If a leg is of RDMA the memory is registered with it: other transports send
// from any memory, and a second RDMA leg copies.
func (t *Transport) Alloc(bytes int) ([]byte, error) {
	for _, l := range t.legs {
		if l.Capabilities().Name == "ud" {
			if mem, err := l.Alloc(bytes); !errors.Is(err, net.ErrClosed) || t.closing.Load() {
				return mem, err
			}
		}
	}
	var err error
	for _, l := range t.legs { // one may have ended by itself
		var mem []byte
		if mem, err = l.Alloc(bytes); !errors.Is(err, net.ErrClosed) {
			return mem, err
		}
	}
	return nil, err
}

// Free implements transport.Transport: legs ignore memory of other legs.
func (t *Transport) Free(mem []byte) {
	for _, l := range t.legs {
		l.Free(mem)
	}
}

// Stats implements transport.Transport. A sent packet is counted once, however many legs take it, and a
// membership once; the other counters are sums over the legs.
func (t *Transport) Stats() transport.Stats {
	var s transport.Stats
	t.received.AddTo(&s.Transport)
	t.mu.Lock()
	t.sent.AddTo(&s.Transport)
	for x := range t.senders {
		x.sent.AddTo(&s.Transport)
	}
	t.mu.Unlock()
	for _, l := range t.legs {
		o := l.Stats().Transport
		s.Legs = append(s.Legs, stats.Leg{URL: l.name, Up: l.up.Load(), Unsent: l.unsent.Load(), Transport: o})
		for _, n := range [][2]*uint64{
			{&s.SendErrors, &o.SendErrors}, {&s.SendNoMemory, &o.SendNoMemory}, {&s.ReceiveCalls, &o.ReceiveCalls},
			{&s.ReceiveOverflow, &o.ReceiveOverflow},
			{&s.ReceiveTruncated, &o.ReceiveTruncated}, {&s.ReceiveErrors, &o.ReceiveErrors}, {&s.PeersRefused, &o.PeersRefused},
			{&s.GSORefused, &o.GSORefused}, {&s.PKeyViolations, &o.PKeyViolations}, {&s.QKeyViolations, &o.QKeyViolations},
			{&s.Unclaimed, &o.Unclaimed}, {&s.Damaged, &o.Damaged}, {&s.Injected, &o.Injected}, {&s.ReceiveQueueFull,
				&o.ReceiveQueueFull}, {&s.InjectedDelay, &o.InjectedDelay}, {&s.SendOnlyRefused, &o.SendOnlyRefused},
		} {
			*n[0] += *n[1]
		}
	}
	return s
}

// Close implements transport.Transport.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	var errs []error
	for _, l := range t.legs {
		errs = append(errs, l.Close())
	}
	return join(errs...)
}

// join is errors.Join with a text of one line.
func join(errs ...error) (all error) {
	for _, err := range errs {
		if all == nil {
			all = err
		} else if err != nil {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}
