//go:build !fanfare_plainudp

package udp

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/arena"
	"github.com/fanfaremq/fanfare/transport/internal/events"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// Transport is an endpoint. See package transport for who may call what. It
// starts no goroutine.
type Transport struct {
	cfg    Config
	link   link
	local  netip.AddrPort
	limits SocketLimits
	caps   transport.Capabilities // without GSO and EqualTrains, which gso tells
	gso    atomic.Bool            // withdrawn by the first Sender that is refused

	unicast *socket
	waiter  *waiter
	events  events.Queue
	arena   arena.Arena

	closing atomic.Bool  // Close was called: nothing begins any more
	ending  atomic.Bool  // leaving is complete: Poll may wait for it
	leaving grace.Period // Senders that may be using the unicast socket
	done    atomic.Bool  // Poll has reported the end

	// Loop only.
	groups []*socket // nil where not joined
	recv   *receiver
	ready  []*socket // may have packets
	polls  uint      // counts Polls, to look at the other sockets now and then
	peers  *peers.Table[netip.AddrPort, sockaddr]
	reply  message

	mu      sync.Mutex
	senders map[*Sender]struct{}

	sent     tally.Sent // Replies, and Senders that are closed
	received tally.Received
}

// Open makes an endpoint: its unicast socket, its waiting machinery and its
// receive memory. Groups are joined later.
func Open(cfg Config) (*Transport, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l, err := findLink(&cfg)
	if err != nil {
		return nil, err
	}
	cfg.PacketSize = cfg.packetSize(l.mtu)
	t := &Transport{
		cfg: cfg, link: l,
		groups:  make([]*socket, cfg.Groups),
		peers:   peers.New[netip.AddrPort, sockaddr](cfg.Peers),
		senders: make(map[*Sender]struct{}),
	}
	if err := t.open(); err != nil {
		t.teardown()
		return nil, err
	}
	return t, nil
}

func (t *Transport) open() (err error) {
	if t.waiter, err = newWaiter(); err != nil {
		return err
	}
	if t.unicast, err = openUnicast(&t.cfg, &t.link); err != nil {
		return fmt.Errorf("udp: open socket at %v port %d: %w", t.link.addr, t.cfg.UnicastPort, err)
	}
	if t.local, err = t.unicast.localAddr(); err != nil {
		return fmt.Errorf("udp: own address: %w", err)
	}
	if err = t.waiter.add(t.unicast); err != nil {
		return err
	}
	if t.recv, err = newReceiver(batch + t.cfg.LendMax); err != nil {
		return fmt.Errorf("udp: receive memory: %w", err)
	}
	t.limits = SocketLimits{
		ReceiveAsked: t.cfg.ReceiveBuffer, ReceiveGranted: t.unicast.option(unix.SO_RCVBUF) / 2,
		SendAsked: t.cfg.SendBuffer, SendGranted: t.unicast.option(unix.SO_SNDBUF) / 2,
	}
	t.gso.Store(!t.cfg.NoGSO && probeGSO(t.unicast.fd))
	t.reply.init(nil)
	t.caps = transport.Capabilities{
		Name: "udp", Groups: t.cfg.Groups, MaxPacket: maxPacket, PacketSize: t.cfg.PacketSize,
		MaxTrain: maxSegments, MaxTrainBytes: maxTrainBytes, Batch: batch, LendMax: t.cfg.LendMax,
		ReceiveCapacity: capacity(t.unicast.option(unix.SO_RCVBUF),
			charge(t.cfg.PacketSize, t.cfg.headers(), t.link.mtu, t.link.loopback)),
		GRO: t.unicast.gro,
		// The UDP checksum is always on here, and the kernel verifies it unless
		// the network card, or loopback, vouches for the packet.
		Checked: true,
	}
	return nil
}

// Capabilities implements transport.Transport.
func (t *Transport) Capabilities() transport.Capabilities {
	c := t.caps
	c.GSO = t.gso.Load()
	c.EqualTrains = c.GSO
	return c
}

// Join implements transport.Transport. The kernel joins at once, and sends the
// membership report by itself.
func (t *Transport) Join(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	if t.groups[group] != nil {
		return nil
	}
	defer t.Wake()
	s, err := openGroup(&t.cfg, &t.link, group)
	if err == nil {
		if err = t.waiter.add(s); err != nil {
			s.close()
		}
	}
	if err != nil {
		t.joinFailed(group, groupLimit(err))
		return nil
	}
	t.groups[group] = s
	t.received.Joins.Add(1)
	t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Joined})
	return nil
}

// Leave implements transport.Transport. Packets in the socket's buffer go with
// it.
func (t *Transport) Leave(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	s := t.groups[group]
	if s == nil {
		return nil
	}
	t.groups[group] = nil
	t.unready(s)
	s.close() // which takes it off the epoll descriptor and ends the membership
	t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Left})
	t.Wake()
	return nil
}

// Close implements transport.Transport. The next Poll closes the sockets, frees
// the memory and reports the end, unless a Send is using them just then: in that
// case a later one does.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.arena.Seal()
	t.mu.Lock()
	for s := range t.senders {
		t.leaving.Add(&s.section)
	}
	t.mu.Unlock()
	t.ending.Store(true)
	t.Wake()
	return nil
}

// end is Poll after Close.
func (t *Transport) end() error {
	if t.done.Load() {
		return errClosed
	}
	if !t.ending.Load() || !t.leaving.Over() {
		return nil
	}
	t.done.Store(true)
	t.teardown()
	return errClosed
}

func (t *Transport) teardown() {
	for i, s := range t.groups {
		if s != nil {
			s.close()
			t.groups[i] = nil
		}
	}
	t.ready = nil
	if t.unicast != nil {
		t.unicast.close()
	}
	if t.waiter != nil {
		t.waiter.close()
	}
	if t.recv != nil {
		t.recv.close()
	}
}
