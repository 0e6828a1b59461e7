package roce

import (
	"net/netip"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// kind says what a socket is for.
type kind uint8

const (
	// unicastSocket is bound to an address of the interface. Of several
	// processes that have one the kernel gives a datagram to the one that
	// bound it last; when that one ends, to the one before it.
	unicastSocket kind = iota
	// groupSocket is bound to a group and member of it.
	groupSocket
	// rawSocket gets every UDP datagram of IPv4 that the host receives, with
	// its header, whatever other sockets get.
	rawSocket
	// leaseSocket holds a QPN, and gets what other processes received for it.
	leaseSocket
	// sendSocket is watched for room, while a queue pair waits for it.
	sendSocket
)

// socket is something that is watched.
type socket struct {
	fd      int
	id      int32
	kind    kind
	ipv4    bool
	dst     rdma.GID // of what arrives; not of raw ones
	qpn     rdma.QPN // of a lease
	users   int      // who want the group: the connection manager, attached queue pairs
	drops   uint32   // the kernel's running count when last told; it wraps
	ready   bool     // is in receiver.ready
	trains  bool     // the latest call brought trains
	retired atomic.Bool
	out     *outlet // of a send socket
}

func (s *socket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// newUDP makes a UDP socket with what all kinds have in common.
func newUDP(d *device, ipv4 bool) (int, error) {
	domain := unix.AF_INET
	if !ipv4 {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return -1, named("socket", err)
	}
	if !ipv4 {
		err = named("IPV6_V6ONLY", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1))
	}
	if err == nil {
		// So that several processes can have the port.
		err = named("SO_REUSEADDR", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// setBuffer asks for a buffer of bytes: beyond the system's limit if this
// process may, else up to it.
func setBuffer(fd, force, plain, bytes int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, bytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, bytes)
	}
}

// udpNoCheck6RX is UDP_NO_CHECK6_RX (linux/udp.h): RoCEv2 leaves the checksum
// out on IPv6 too.
const udpNoCheck6RX = 102

// setupReceive makes a socket tell what a datagram's header had.
func setupReceive(d *device, fd int, ipv4 bool) error {
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, d.cfg.ReceiveBuffer)
	// Best effort, since Linux 2.6.33 and 5.0: without them overflow stays
	// unknown, and datagrams come one by one.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	if !d.cfg.NoGRO {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	}
	if ipv4 {
		return first(
			named("IP_RECVTTL", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1)),
			named("IP_RECVTOS", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)),
		)
	}
	return first(
		named("UDP_NO_CHECK6_RX", unix.SetsockoptInt(fd, unix.IPPROTO_UDP, udpNoCheck6RX, 1)),
		named("IPV6_RECVHOPLIMIT", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)),
		named("IPV6_RECVTCLASS", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)),
	)
}

// bind binds a socket; EADDRINUSE becomes a *PortInUseError.
func bind(fd int, ip netip.Addr, port uint16, scope int) error {
	sa := toSockaddr(ip, port, scope)
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&sa.raw)), uintptr(sa.len))
	switch errno {
	case 0:
		return nil
	case unix.EADDRINUSE:
		_, err := os.Stat("/sys/module/rdma_rxe")
		return &PortInUseError{Addr: netip.AddrPortFrom(ip, port), Kernel: err == nil}
	}
	return named("bind to "+netip.AddrPortFrom(ip, port).String(), errno)
}

// openUnicast makes the socket of an address of the interface.
func openUnicast(d *device, ip netip.Addr) (*socket, error) {
	fd, err := newUDP(d, ip.Is4())
	if err != nil {
		return nil, err
	}
	s := &socket{fd: fd, kind: unicastSocket, ipv4: ip.Is4(), dst: rdma.GIDFromIP(ip)}
	err = setupReceive(d, fd, s.ipv4)
	if err == nil && !s.ipv4 && d.cfg.Addrs == nil {
		// The interface has the address, but it may be tentative for a second or
		// two after the interface came up (RFC 4862 §5.4).
		err = named("IPV6_FREEBIND", unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1))
	}
	if err == nil {
		err = bind(fd, ip, rocev2.Port, d.link.index)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openGroup makes the socket of a group and joins it.
func openGroup(d *device, group netip.Addr) (*socket, error) {
	fd, err := newUDP(d, group.Is4())
	if err != nil {
		return nil, err
	}
	s := &socket{fd: fd, kind: groupSocket, ipv4: group.Is4(), dst: rdma.GIDFromIP(group)}
	if err = setupReceive(d, fd, s.ipv4); err == nil {
		err = s.onlyOwnGroups(d)
	}
	if err == nil && d.full && s.ipv4 {
		// The raw socket gets the datagrams; this one is there for the
		// membership, and because it lets the kernel put trains together.
		err = dropAll(fd)
	}
	if err == nil {
		err = bind(fd, group, rocev2.Port, d.link.index)
	}
	if err == nil {
		err = s.join(group, d.link.index)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// onlyOwnGroups keeps out what other sockets of this host have joined, be it the
// same group on another interface.
func (s *socket) onlyOwnGroups(d *device) error {
	if s.ipv4 {
		return named("IP_MULTICAST_ALL", unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0))
	}
	// IPv6 compares only the group, not the interface (inet6_mc_check in
	// net/ipv6/mcast.c), so the socket is also tied to the interface. Both need
	// newer kernels (4.20, 5.7).
	_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0)
	return named("SO_BINDTOIFINDEX", unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, d.link.index))
}

func (s *socket) join(group netip.Addr, ifindex int) error {
	if group.Is4() {
		return named("join "+group.String(), unix.SetsockoptIPMreqn(s.fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(ifindex)}))
	}
	return named("join "+group.String(), unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
		&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(ifindex)}))
}

// leave ends the membership before the socket is closed. It fails only if the
// interface is gone, and the membership with it.
func (s *socket) leave(group netip.Addr, ifindex int) {
	if group.Is4() {
		_ = unix.SetsockoptIPMreqn(s.fd, unix.IPPROTO_IP, unix.IP_DROP_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(ifindex)})
		return
	}
	_ = unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6, unix.IPV6_LEAVE_GROUP,
		&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(ifindex)})
}
