//go:build !linux || fanfare_plainudp

package udp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/arena"
	"github.com/fanfaremq/fanfare/transport/internal/events"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/inbox"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// queueTrains is how many packets wait between the readers and Poll.
const queueTrains = 512

// Transport is an endpoint on package net: for systems that have no own path
// here, and to test that path where there is one. See package transport for who
// may call what.
//
// A goroutine for each socket reads packets into a queue; it is started by Open
// or Join, and ends when Leave or Close closes its socket. The end of the last
// one is part of what Poll awaits before it reports the end.
type Transport struct {
	cfg    Config
	link   link
	ifc    *net.Interface
	local  netip.AddrPort
	limits SocketLimits
	caps   transport.Capabilities

	unicast *net.UDPConn
	in      *inbox.Inbox
	from    []netip.AddrPort // of the packet in each slot of in
	readers atomic.Int64     // goroutines that have not ended
	events  events.Queue
	arena   arena.Arena
	// pending reports whether Poll has something to do besides trains.
	pending func() bool

	closing atomic.Bool  // Close was called: nothing begins any more
	ending  atomic.Bool  // leaving is complete: Poll may wait for it
	leaving grace.Period // Senders that may be reading the caller's memory
	done    atomic.Bool  // Poll has reported the end

	// Loop only.
	groups []*net.UDPConn // nil where not joined
	peers  *peers.Table[netip.AddrPort, netip.AddrPort]

	mu      sync.Mutex
	senders map[*Sender]struct{}

	sent     tally.Sent // Replies, and Senders that are closed
	received tally.Received
}

// Open makes an endpoint: its unicast socket and its receive memory. Groups are
// joined later.
func Open(cfg Config) (*Transport, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	l, err := findLink(&cfg)
	if err != nil {
		return nil, err
	}
	cfg.PacketSize = min(cfg.packetSize(l.mtu), largestSend)
	t := &Transport{
		cfg: cfg, link: l,
		groups:  make([]*net.UDPConn, cfg.Groups),
		peers:   peers.New[netip.AddrPort, netip.AddrPort](cfg.Peers),
		senders: make(map[*Sender]struct{}),
	}
	if t.ifc, err = net.InterfaceByIndex(l.index); err != nil {
		return nil, fmt.Errorf("udp: interface %s: %w", l.name, err)
	}
	slots := queueTrains + cfg.LendMax
	if t.in, err = inbox.New(slots, bufferBytes); err != nil {
		return nil, fmt.Errorf("udp: receive memory: %w", err)
	}
	t.from = make([]netip.AddrPort, slots)
	t.pending = func() bool { return t.events.Pending() || t.closing.Load() && t.quiet() }
	if err = t.openUnicast(); err != nil {
		t.in.Free()
		return nil, fmt.Errorf("udp: open socket at %v port %d: %w", l.addr, cfg.UnicastPort, err)
	}
	// The system does not tell in a portable way what it granted.
	t.limits = SocketLimits{
		ReceiveAsked: cfg.ReceiveBuffer, ReceiveGranted: cfg.ReceiveBuffer,
		SendAsked: cfg.SendBuffer, SendGranted: cfg.SendBuffer,
	}
	t.caps = transport.Capabilities{
		Name: "udp", Groups: cfg.Groups, MaxPacket: largestSend, PacketSize: cfg.PacketSize,
		MaxTrain: maxSegments, MaxTrainBytes: maxTrainBytes, Batch: batch, LendMax: cfg.LendMax,
		ReceiveCapacity: queueTrains / 2, Checked: true,
	}
	t.read(t.unicast, transport.Unicast)
	return t, nil
}

func (t *Transport) network() string {
	if t.link.addr.Is4() {
		return "udp4"
	}
	return "udp6"
}

func (t *Transport) listen(at netip.AddrPort) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { prepare(fd, network == "udp6", at.Addr().IsMulticast(), t.link.index) })
	}}
	pc, err := lc.ListenPacket(context.Background(), t.network(), at.String())
	if err != nil {
		return nil, err
	}
	conn := pc.(*net.UDPConn)
	// What cannot be granted is cut or refused; smaller buffers still work.
	_ = conn.SetReadBuffer(t.cfg.ReceiveBuffer)
	return conn, nil
}

func (t *Transport) openUnicast() error {
	conn, err := t.listen(netip.AddrPortFrom(t.link.addr, uint16(t.cfg.UnicastPort)))
	if err != nil {
		return err
	}
	_ = conn.SetWriteBuffer(t.cfg.SendBuffer)
	if err := setupSend(conn, t.ifc, &t.cfg); err != nil {
		conn.Close()
		return err
	}
	t.unicast = conn
	t.local = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	t.local = netip.AddrPortFrom(t.local.Addr().Unmap().WithZone(""), t.local.Port())
	return nil
}

// Capabilities implements transport.Transport.
func (t *Transport) Capabilities() transport.Capabilities { return t.caps }

// Join implements transport.Transport.
func (t *Transport) Join(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	if t.groups[group] != nil {
		return nil
	}
	defer t.Wake()
	// Package net binds a multicast address as the wildcard address with
	// SO_REUSEADDR (listenDatagram in net/sock_posix.go); the membership of the
	// socket then decides what arrives.
	conn, err := t.listen(t.groupAddr(group))
	if err == nil {
		if err = join(conn, t.ifc, &t.cfg, t.groupAddr(group).Addr()); err != nil {
			conn.Close()
		}
	}
	if err != nil {
		t.joinFailed(group, groupLimit(err))
		return nil
	}
	t.groups[group] = conn
	t.read(conn, group)
	t.received.Joins.Add(1)
	t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Joined})
	return nil
}

// Leave implements transport.Transport.
func (t *Transport) Leave(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	if t.groups[group] == nil {
		return nil
	}
	t.groups[group].Close() // ends the membership and the reader
	t.groups[group] = nil
	t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Left})
	t.Wake()
	return nil
}

// Close implements transport.Transport. A Poll frees the memory and reports the
// end as soon as the readers have ended and no Send is under way.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.arena.Seal()
	t.unicast.Close()
	t.mu.Lock()
	for s := range t.senders {
		t.leaving.Add(&s.section)
	}
	t.mu.Unlock()
	t.ending.Store(true)
	t.Wake()
	return nil
}

// quiet reports whether nobody uses the memory any more.
func (t *Transport) quiet() bool {
	if !t.ending.Load() {
		return false
	}
	for i, conn := range t.groups {
		if conn != nil {
			conn.Close()
			t.groups[i] = nil
		}
	}
	return t.readers.Load() == 0 && t.leaving.Over()
}

// end is Poll after Close.
func (t *Transport) end() error {
	if t.done.Load() {
		return errClosed
	}
	if !t.quiet() {
		return nil
	}
	t.done.Store(true)
	t.in.Free()
	return errClosed
}
