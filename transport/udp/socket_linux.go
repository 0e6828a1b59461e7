//go:build !fanfare_plainudp

package udp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

// socket is one UDP socket: the unicast one, or a group's.
type socket struct {
	fd    int
	group int // or transport.Unicast
	gro   bool
	ready bool   // is in Transport.ready
	drops uint32 // the kernel's running count when last told; it wraps
}

// sockaddr is a socket address as the kernel wants it.
type sockaddr struct {
	raw unix.RawSockaddrInet6 // large enough for IPv4 too
	len uint32
}

// toSockaddr converts an address; scope is the interface for link-local ones.
func toSockaddr(a netip.AddrPort, scope int) (s sockaddr) {
	var port [2]byte
	binary.BigEndian.PutUint16(port[:], a.Port())
	wire := *(*uint16)(unsafe.Pointer(&port))
	if a.Addr().Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		*v4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: wire, Addr: a.Addr().As4()}
		s.len = unix.SizeofSockaddrInet4
		return s
	}
	s.raw = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: wire, Addr: a.Addr().As16()}
	if ip := a.Addr(); ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsInterfaceLocalMulticast() {
		s.raw.Scope_id = uint32(scope)
	}
	s.len = unix.SizeofSockaddrInet6
	return s
}

// is6 reports whether the address is one of IPv6.
func (s *sockaddr) is6() bool { return s.raw.Family == unix.AF_INET6 }

// addrPort converts an address from the kernel. It drops the scope: all
// traffic of a transport is on one interface.
func (s *sockaddr) addrPort() netip.AddrPort {
	wire := *(*[2]byte)(unsafe.Pointer(&s.raw.Port))
	port := binary.BigEndian.Uint16(wire[:])
	if !s.is6() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(s.raw.Addr), port)
}

// openUnicast makes the socket to send from and to get replies at.
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

// setupSend sets where multicast goes, how far, and whether it comes back to
// this host. In IPv4 and IPv6 alike the sending socket decides the latter
// (ip(7), ipv6(7)).
func (s *socket) setupSend(cfg *Config, l *link) error {
	loop := 1
	if cfg.NoLoopback {
		loop = 0
	}
	if l.addr.Is4() {
		return first(
			named("IP_MULTICAST_IF", unix.SetsockoptIPMreqn(s.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF,
				&unix.IPMreqn{Address: l.addr.As4(), Ifindex: int32(l.index)})),
			named("IP_MULTICAST_TTL", unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, cfg.ttl())),
			named("IP_MULTICAST_LOOP", unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, loop)),
		)
	}
	return first(
		named("IPV6_MULTICAST_IF", unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, l.index)),
		named("IPV6_MULTICAST_HOPS", unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, cfg.ttl())),
		named("IPV6_MULTICAST_LOOP", unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, loop)),
	)
}

// openGroup makes the socket of a group and joins it.
func openGroup(cfg *Config, l *link, group int) (*socket, error) {
	s, err := newSocket(cfg, l, group)
	if err != nil {
		return nil, err
	}
	addr := groupAddr(cfg.Range.Addr(), group)
	err = first(
		// So that several transports, here and in other processes, can bind it.
		named("SO_REUSEADDR", unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)),
		s.onlyOwnGroups(l),
		s.bind(netip.AddrPortFrom(addr, uint16(cfg.Port)), l),
	)
	if err == nil {
		err = s.join(addr, l)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// onlyOwnGroups keeps out what other sockets of this host have joined, be it
// the same group on another interface.
func (s *socket) onlyOwnGroups(l *link) error {
	if l.addr.Is4() {
		return named("IP_MULTICAST_ALL", unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0))
	}
	// IPv6 compares only the group, not the interface (inet6_mc_check in
	// net/ipv6/mcast.c), so the socket is also tied to the interface. Both need
	// newer kernels (4.20, 5.7); without them more arrives, and is told apart by
	// what is in the packets.
	_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0)
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, l.index)
	return nil
}

func (s *socket) join(addr netip.Addr, l *link) error {
	if addr.Is4() {
		return named("IP_ADD_MEMBERSHIP", unix.SetsockoptIPMreqn(s.fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: addr.As4(), Ifindex: int32(l.index)}))
	}
	return named("IPV6_JOIN_GROUP", unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
		&unix.IPv6Mreq{Multiaddr: addr.As16(), Interface: uint32(l.index)}))
}

// newSocket makes a socket with what both kinds have in common.
func newSocket(cfg *Config, l *link, group int) (*socket, error) {
	domain := unix.AF_INET
	if l.addr.Is6() {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, named("socket", err)
	}
	s := &socket{fd: fd, group: group}
	if domain == unix.AF_INET6 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			s.close()
			return nil, named("IPV6_V6ONLY", err)
		}
	}
	s.setBuffer(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, cfg.ReceiveBuffer)
	if group == transport.Unicast {
		s.setBuffer(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, cfg.SendBuffer)
	}
	// Best effort: since Linux 2.6.33. Without it overflow stays unknown.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	if !cfg.NoGRO {
		// Since Linux 5.0.
		s.gro = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
	}
	return s, nil
}

// setBuffer asks for a buffer of bytes: beyond the system's limit if this
// process may, else up to it. What was granted is read back, so failure is not
// an error.
func (s *socket) setBuffer(force, plain, bytes int) {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, force, bytes) != nil {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, plain, bytes)
	}
}

// option reads an integer option of level SOL_SOCKET; 0 if that fails.
func (s *socket) option(opt int) int {
	n, _ := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, opt)
	return n
}

func (s *socket) bind(addr netip.AddrPort, l *link) error {
	sa := toSockaddr(addr, l.index)
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(s.fd), uintptr(unsafe.Pointer(&sa.raw)), uintptr(sa.len))
	if errno != 0 {
		return named("bind", errno)
	}
	return nil
}

func (s *socket) localAddr() (netip.AddrPort, error) {
	var sa sockaddr
	sa.len = unix.SizeofSockaddrInet6
	_, _, errno := unix.Syscall(unix.SYS_GETSOCKNAME, uintptr(s.fd), uintptr(unsafe.Pointer(&sa.raw)), uintptr(unsafe.Pointer(&sa.len)))
	if errno != 0 {
		return netip.AddrPort{}, named("getsockname", errno)
	}
	return sa.addrPort(), nil
}

func (s *socket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// named puts the name of a system call or option before its errno, which stays
// matchable.
func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
