//go:build !fanfare_plainudp

package udp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

// socket is one UDP socket: the unicast one, or a group's.
type socket struct {
	fd    int
	group int // or transport.Unicast
	gro   bool
	ready bool // is in Transport.ready
	lost  bool // the group could not be joined again, and was reported as lost
	share share
	drops sys.Drops
}

// openUnicast opens the socket that sends packets and receives replies.
func openUnicast(cfg *Config, l *link, port int) (*socket, error) {
	s, err := newSocket(cfg, l, transport.Unicast)
	if err != nil {
		return nil, err
	}
	if err = s.setupSend(cfg, l); err == nil {
		err = s.bind(netip.AddrPortFrom(l.addr, uint16(port)), l)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// setupSend sets the interface and hop limit of multicast, and whether it is looped back to this host.
func (s *socket) setupSend(cfg *Config, l *link) error {
	return sys.SetMulticast(s.fd, l.addr, l.index, cfg.ttl(), !cfg.NoLoopback)
}

// openGroup opens the socket of a group and joins the group.
func openGroup(cfg *Config, l *link, group int) (*socket, error) {
	s, err := newSocket(cfg, l, group)
	if err != nil {
		return nil, err
	}
	addr := groupAddr(cfg.Range.Addr(), group)
	err = cmp.Or(sys.Share(s.fd), s.onlyOwnGroups(l), s.bind(netip.AddrPortFrom(addr, uint16(cfg.Port)), l))
	if err == nil {
		err = sys.Join(s.fd, addr, l.index)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// onlyOwnGroups excludes packets of groups that only other sockets of this host have joined. Kernels that cannot do
// this for IPv6 deliver more packets, which are distinguished by their group tag.
func (s *socket) onlyOwnGroups(l *link) error {
	if err := sys.OnlyOwnGroups(s.fd, l.addr.Is6(), l.index); l.addr.Is4() {
		return err
	}
	return nil
}

// newSocket opens a socket with the options of both kinds.
func newSocket(cfg *Config, l *link, group int) (*socket, error) {
	fd, err := sys.OpenUDP(l.addr.Is6())
	if err != nil {
		return nil, err
	}
	s := &socket{fd: fd, group: group}
	sys.SetReceiveBuffer(fd, cfg.ReceiveBuffer)
	if group == transport.Unicast {
		sys.SetSendBuffer(fd, cfg.SendBuffer)
	}
	sys.CountDrops(fd)
	s.gro = !cfg.NoGRO && sys.EnableGRO(fd)
	return s, nil
}

// option reads an integer option of level SOL_SOCKET; 0 if that fails.
func (s *socket) option(opt int) int {
	n, _ := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, opt)
	return n
}

func (s *socket) bind(addr netip.AddrPort, l *link) error {
	return portInUse(addr, sys.Bind(s.fd, addr, l.index))
}

// portInUse adds a remedy to the error that another program uses the port.
func portInUse(addr netip.AddrPort, err error) error {
	if !errors.Is(err, unix.EADDRINUSE) || addr.Port() == 0 {
		return err
	}
	return fmt.Errorf("UDP port %d is used by a program that does not share it: end that program (ss -ulpn 'sport = :%[1]d' shows it), or use another port: %w", addr.Port(), err)
}

func (s *socket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}
