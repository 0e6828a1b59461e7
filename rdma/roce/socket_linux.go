package roce

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// kind is the purpose of a socket.
type kind uint8

const (
	// unicastSocket is bound to an address of the interface. If several processes have one, the kernel delivers datagrams
	// to the one that was bound last; when that process ends, to the one bound before it.
	unicastSocket kind = iota
	// groupSocket is bound to a group and has joined it.
	groupSocket
	// rawSocket receives a copy of every UDP datagram over IPv4 that the host receives, with its header.
	rawSocket
	// leaseSocket holds a QPN, and receives datagrams that other processes relay to it.
	leaseSocket
	// sendSocket is watched for room while a queue pair waits.
	sendSocket
)

// socket is a watched socket.
type socket struct {
	fd      int
	id      int32
	kind    kind
	ipv4    bool
	dst     rdma.GID // destination of its datagrams; not of raw sockets
	qpn     rdma.QPN // of a lease socket
	users   int      // users of the group: the connection manager, attached queue pairs
	drops   sys.Drops
	ready   bool // it is in receiver.ready
	trains  bool // the last call returned trains
	retired atomic.Bool
	out     *outlet // of a send socket
}

func (s *socket) close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// newUDP makes a UDP socket with the options of all kinds: several processes can use its port.
func newUDP(ipv4 bool) (int, error) {
	fd, err := sys.OpenUDP(!ipv4)
	if err != nil {
		return -1, err
	}
	if err := sys.Share(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// udpNoCheck6RX is UDP_NO_CHECK6_RX (linux/udp.h): RoCEv2 omits the checksum also on IPv6.
const udpNoCheck6RX = 102

// setupReceive makes a socket report the header fields of datagrams.
func setupReceive(d *device, fd int, ipv4 bool) error {
	sys.SetReceiveBuffer(fd, d.cfg.ReceiveBuffer)
	sys.CountDrops(fd)
	if !d.cfg.NoGRO {
		sys.EnableGRO(fd)
	}
	if ipv4 {
		return cmp.Or(
			sys.Set(fd, "IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1),
			sys.Set(fd, "IP_RECVTOS", unix.IPPROTO_IP, unix.IP_RECVTOS, 1),
		)
	}
	return cmp.Or(
		sys.Set(fd, "UDP_NO_CHECK6_RX", unix.IPPROTO_UDP, udpNoCheck6RX, 1),
		sys.Set(fd, "IPV6_RECVHOPLIMIT", unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
		sys.Set(fd, "IPV6_RECVTCLASS", unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1),
	)
}

// bind binds a socket; EADDRINUSE becomes a *PortInUseError.
func bind(fd int, ip netip.Addr, port uint16, scope int) error {
	addr := netip.AddrPortFrom(ip, port)
	err := sys.Bind(fd, addr, scope)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EADDRINUSE):
		_, err := os.Stat("/sys/module/rdma_rxe")
		return &PortInUseError{Addr: addr, Kernel: err == nil}
	}
	return fmt.Errorf("%v: %w", addr, err)
}

// openUnicast makes the socket for an address of the interface.
func openUnicast(d *device, ip netip.Addr) (*socket, error) {
	fd, err := newUDP(ip.Is4())
	if err != nil {
		return nil, err
	}
	s := &socket{fd: fd, kind: unicastSocket, ipv4: ip.Is4(), dst: rdma.GIDFromIP(ip)}
	err = setupReceive(d, fd, s.ipv4)
	if err == nil && !s.ipv4 && d.cfg.Addrs == nil {
		// The interface has the address, but it may be tentative for one or two seconds after the interface came up (RFC 4862
		// §5.4).
		err = sys.Set(fd, "IPV6_FREEBIND", unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
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

// openGroup makes the socket for a group and joins it.
func openGroup(d *device, group netip.Addr) (*socket, error) {
	fd, err := newUDP(group.Is4())
	if err != nil {
		return nil, err
	}
	s := &socket{fd: fd, kind: groupSocket, ipv4: group.Is4(), dst: rdma.GIDFromIP(group)}
	if err = setupReceive(d, fd, s.ipv4); err == nil {
		err = sys.OnlyOwnGroups(fd, !s.ipv4, d.link.index)
	}
	if err == nil && d.full && s.ipv4 {
		// The raw socket receives the datagrams. This one is for the membership, and makes the kernel merge trains.
		err = dropAll(fd)
	}
	if err == nil {
		err = bind(fd, group, rocev2.Port, d.link.index)
	}
	if err == nil {
		err = sys.Join(fd, group, d.link.index)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}
