//go:build !linux || fanfare_plainudp

package udp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/inbox"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/round"
)

// queueTrains is the capacity, in packets, of the queue between the readers and Poll.
const queueTrains = 512

// receiveCapacity is the number of packets that fit even if no reader runs: packets of the usual size in a socket
// buffer of 208 KiB, Linux's default limit.
const receiveCapacity = 128

// Transport is an endpoint on package net, for systems other than Linux, and for tests of it on Linux. See package
// transport for which goroutine may call which method.
//
// A goroutine for each socket reads packets into a queue; it is started by Open or Join, and ends when
// Leave or Close closes its socket. Poll reports the end only after the last one has ended.
//
// It does not detect that its interface goes down or is removed: a Send then fails with the system's error, and nothing
// is received until the interface is back, or at all if its index has changed. No Lost event is reported.
type Transport struct {
	endpoint
	ifc     *net.Interface
	unicast *net.UDPConn
	in      *inbox.Inbox
	from    []netip.AddrPort // of the packet in each slot of in
	readers atomic.Int64     // number of running goroutines
	// pending reports whether Poll has something to do besides trains.
	pending func() bool

	// Loop only.
	groups []*net.UDPConn // nil where not joined
	round  round.Round
	peers  *peers.Table[netip.AddrPort, destination]
}

// Open makes an endpoint: its unicast socket and its receive memory. Groups are joined later.
func Open(cfg Config) (*Transport, error) {
	t := new(Transport)
	if err := t.init(cfg); err != nil {
		return nil, err
	}
	l := t.link()
	t.groups = make([]*net.UDPConn, t.cfg.Groups)
	t.peers = peers.New[netip.AddrPort, destination](t.cfg.Peers)
	var err error
	if t.ifc, err = sys.InterfaceByIndex(l.index); err != nil {
		return nil, fmt.Errorf("udp: interface %s: %w", l.name, err)
	}
	slots := queueTrains + t.cfg.LendMax + batch
	if t.in, err = inbox.New(slots, bufferBytes); err != nil {
		return nil, fmt.Errorf("udp: receive memory: %w", err)
	}
	t.from = make([]netip.AddrPort, slots)
	t.pending = func() bool { return t.events.Pending() || t.closing.Load() && t.quiet() }
	if err = t.openUnicast(l); err != nil {
		t.in.Free()
		return nil, unicastError(l, t.cfg.UnicastPort, err)
	}
	// There is no portable way to learn the granted sizes.
	t.limits = SocketLimits{
		ReceiveAsked: t.cfg.ReceiveBuffer, ReceiveGranted: t.cfg.ReceiveBuffer,
		SendAsked: t.cfg.SendBuffer, SendGranted: t.cfg.SendBuffer,
	}
	t.caps.ReceiveCapacity = receiveCapacity
	t.read(t.unicast, transport.Unicast)
	return t, nil
}

func (t *Transport) network() string {
	if t.cfg.Range.Addr().Is4() {
		return "udp4"
	}
	return "udp6"
}

func (t *Transport) listen(at netip.AddrPort) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { prepare(fd, network == "udp6", at.Addr().IsMulticast(), t.ifc.Index) })
	}}
	pc, err := lc.ListenPacket(context.Background(), t.network(), at.String())
	if err != nil {
		return nil, err
	}
	conn := pc.(*net.UDPConn)
	// A too large request is reduced or refused; smaller buffers still work.
	_ = conn.SetReadBuffer(t.cfg.ReceiveBuffer)
	return conn, nil
}

func (t *Transport) openUnicast(l *link) error {
	conn, err := t.listen(netip.AddrPortFrom(l.addr, uint16(t.cfg.UnicastPort)))
	if err != nil {
		return err
	}
	_ = conn.SetWriteBuffer(t.cfg.SendBuffer)
	if err := setupSend(conn, t.ifc, &t.cfg); err != nil {
		conn.Close()
		return err
	}
	t.unicast = conn
	t.setLocal(*l, conn.LocalAddr().(*net.UDPAddr).AddrPort())
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
	// Package net binds a multicast address as the wildcard address with SO_REUSEADDR (listenDatagram in
	// net/sock_posix.go); the membership of the socket then decides what arrives.
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
	t.joined(group)
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
	t.arena.Freeze()
	t.unicast.Close()
	t.awaitSenders()
	t.Wake()
	return nil
}

// quiet reports whether no goroutine uses the memory.
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

// end implements Poll after Close.
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
