//go:build !fanfare_plainudp

package udp

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
)

// Transport is an endpoint. See package transport for which goroutine may call which method. It starts no goroutine.
type Transport struct {
	endpoint
	gso     atomic.Bool // cleared by the first Sender that is refused
	unicast *socket
	waiter  *sys.Waiter

	// Loop only.
	groups []*socket // nil where not joined
	recv   *receiver
	ready  []*socket // may have packets
	warm   *socket   // the socket of the latest receive, if that was small
	polls  uint      // since the last Wait
	round  round
	// repliesLost: the unicast socket has dropped packets since the last Poll.
	repliesLost bool
	flood       flood
	peers       *peers.Table[netip.AddrPort, sys.Sockaddr]
	watch       sys.LinkWatch
	lost        bool // Lost was reported, and Joined was not since

	linkNews bool      // watch has messages to read
	checkAt  time.Time // when to check the interface without a message; zero: never

	dropsReadAt time.Time // when the sockets' drop counters were last read
}

// Open makes an endpoint: its unicast socket, its waiting machinery and its receive memory. Groups are joined later.
func Open(cfg Config) (*Transport, error) {
	t := new(Transport)
	if err := t.open(cfg); err != nil {
		t.teardown()
		return nil, err
	}
	return t, nil
}

func (t *Transport) open(cfg Config) (err error) {
	// Watch first, then find the interface, and repeat while it changes: so no change is missed or handled twice.
	if err = t.watch.Open(); err != nil {
		return fmt.Errorf("udp: watch interfaces: %w", noFiles(err))
	}
	for tries, changed := 0, true; changed && tries < 10; tries++ {
		if err = t.init(cfg); err != nil {
			return err
		}
		changed = t.watch.Discard() // later messages are about changes since then
	}
	l := t.link()
	t.groups = make([]*socket, t.cfg.Groups)
	t.peers = peers.New[netip.AddrPort, sys.Sockaddr](t.cfg.Peers)
	if t.waiter, err = sys.NewWaiter(); err != nil {
		return fmt.Errorf("udp: set up waiting: %w", noFiles(err))
	}
	if t.unicast, err = openUnicast(&t.cfg, l, t.cfg.UnicastPort); err != nil {
		return unicastError(l, t.cfg.UnicastPort, err)
	}
	local, err := sys.LocalAddr(t.unicast.fd)
	if err != nil {
		return fmt.Errorf("udp: own address: %w", err)
	}
	t.setLocal(*l, local)
	if err = t.watchSocket(t.unicast); err != nil {
		return err
	}
	if err = t.watch.AddTo(t.waiter.Poller, markLink); err != nil {
		return err
	}
	if t.recv, err = newReceiver(batch + t.cfg.LendMax); err != nil {
		return fmt.Errorf("udp: receive memory: %w", err)
	}
	t.limits = SocketLimits{
		ReceiveAsked: min(t.cfg.ReceiveBuffer, sys.MaxBuffer), ReceiveGranted: t.unicast.option(unix.SO_RCVBUF) / 2,
		SendAsked: min(t.cfg.SendBuffer, sys.MaxBuffer), SendGranted: t.unicast.option(unix.SO_SNDBUF) / 2,
	}
	t.gso.Store(!t.cfg.NoGSO && sys.SupportsGSO(t.unicast.fd))
	t.caps.GRO = t.unicast.gro
	t.caps.ReceiveCapacity = capacity(t.unicast.option(unix.SO_RCVBUF),
		charge(t.cfg.PacketSize, t.cfg.headers(), l.mtu, l.loopback))
	return nil
}

// Capabilities implements transport.Transport.
func (t *Transport) Capabilities() transport.Capabilities {
	c := t.caps
	c.GSO = t.gso.Load()
	c.EqualTrains = c.GSO
	return c
}

// Join implements transport.Transport. The kernel joins immediately, and sends the membership report. While the
// interface is removed or down the join waits for it.
func (t *Transport) Join(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	if t.groups[group] != nil {
		return nil
	}
	defer t.Wake()
	at := t.at.Load()
	if at.gone {
		t.groups[group] = &socket{fd: -1, group: group}
		return nil
	}
	if err := t.enter(group, &at.link); err != nil {
		t.joinFailed(group, err)
	} else if !t.lost {
		t.joined(group)
	}
	return nil
}

// enter creates and watches the socket of a group.
func (t *Transport) enter(group int, l *link) error {
	s, err := openGroup(&t.cfg, l, group)
	if err != nil {
		return groupLimit(err)
	}
	if err = t.watchSocket(s); err != nil {
		s.close()
		return groupLimit(err)
	}
	t.groups[group] = s
	return nil
}

// Leave implements transport.Transport. Packets in the socket's buffer are dropped.
func (t *Transport) Leave(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	s := t.groups[group]
	if s == nil {
		return nil
	}
	t.exit(s)
	t.events.Post(transport.Event{Group: group, Role: transport.RoleReceiver, State: transport.Left})
	t.Wake()
	return nil
}

// exit closes the socket of a group, which ends the membership.
func (t *Transport) exit(s *socket) {
	t.groups[s.group] = nil
	t.waiter.Poller.Remove(s.fd)
	t.forget(s)
	s.close()
}

// Close implements transport.Transport. The next Poll closes the sockets, frees the memory and reports the end, unless
// a Send is using them at that time: then a later Poll does.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.arena.Freeze()
	t.awaitSenders()
	t.Wake()
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
	t.ready, t.warm = nil, nil
	if t.unicast != nil {
		t.unicast.close()
	}
	if t.waiter != nil {
		t.waiter.Close()
	}
	t.watch.Close()
	if t.recv != nil {
		t.recv.close()
	}
}
