package sys

import (
	"math"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// OpenUDP opens a non-blocking UDP socket for IPv4, or for IPv6 only.
func OpenUDP(is6 bool) (fd int, err error) {
	domain := unix.AF_INET
	if is6 {
		domain = unix.AF_INET6
	}
	fd, err = unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if is6 {
		if err := Set(fd, "IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// Set sets an integer option of a socket; its error has name.
func Set(fd int, name string, level, option, value int) error {
	return os.NewSyscallError(name, unix.SetsockoptInt(fd, level, option, value))
}

// Share lets several sockets, here and in other processes, bind the same address.
func Share(fd int) error { return Set(fd, "SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }

// MaxBuffer is the largest socket buffer that the kernel grants, in bytes (INT_MAX/2: net/core/sock.c,
// __sock_set_rcvbuf).
const MaxBuffer = math.MaxInt32 / 2

// SetReceiveBuffer requests a receive buffer of that many bytes: beyond the system's limit if this process has the
// privilege, else up to it. It returns no error: SO_RCVBUF has the granted size.
func SetReceiveBuffer(fd, bytes int) { setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, bytes) }

// SetSendBuffer does the same for the send buffer.
func SetSendBuffer(fd, bytes int) { setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, bytes) }

func setBuffer(fd, force, plain, bytes int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, bytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, bytes)
	}
}

// CountDrops makes each datagram carry the number of datagrams that the socket has dropped (Control.Drops). Best
// effort, since Linux 2.6.33: without it overflow is not noticed.
func CountDrops(fd int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1) }

// memoryInfo is the value of SO_MEMINFO, since Linux 4.12 (sock_diag(7), include/uapi/linux/sock_diag.h).
type memoryInfo [9]uint32

// The used indices of memoryInfo (SK_MEMINFO_*).
const (
	infoUnread = 0
	infoDrops  = 8
)

func (m *memoryInfo) read(fd int) bool {
	size := uint32(unsafe.Sizeof(*m))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(m)), uintptr(unsafe.Pointer(&size)), 0)
	return errno == 0 && size == uint32(unsafe.Sizeof(*m))
}

// socketDrops returns the number of datagrams that a socket has dropped.
func socketDrops(fd int) (uint32, bool) {
	var m memoryInfo
	ok := m.read(fd)
	return m[infoDrops], ok
}

// Unread returns how much memory, in bytes, the kernel charges for the unread datagrams of a socket, at most; it
// charges more than their length. Where the kernel does not report it, it is the receive buffer's size.
func Unread(fd int) int {
	var m memoryInfo
	if m.read(fd) {
		return int(m[infoUnread])
	}
	size, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return size
}

// MinCharge returns the minimum that the kernel charges for a message of size bytes: struct sk_buff and struct
// skb_shared_info are added.
func MinCharge(size int) int { return size + 576 }

// EnableGRO lets the kernel combine datagrams to trains (Control.Segment). It reports whether the kernel supports that
// (since Linux 5.0).
func EnableGRO(fd int) bool {
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
}

// SetMulticast sets the interface and source address of multicast, its hop limit, and whether it is looped back to this
// host. With IPv4 and IPv6 the sending socket decides about the loop (ip(7), ipv6(7)).
func SetMulticast(fd int, from netip.Addr, ifindex, hops int, loopback bool) error {
	loop := 0
	if loopback {
		loop = 1
	}
	if from.Is4() {
		out := &unix.IPMreqn{Address: from.As4(), Ifindex: int32(ifindex)}
		if err := unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, out); err != nil {
			return os.NewSyscallError("IP_MULTICAST_IF", err)
		}
		if err := Set(fd, "IP_MULTICAST_TTL", unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, hops); err != nil {
			return err
		}
		return Set(fd, "IP_MULTICAST_LOOP", unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, loop)
	}
	if err := Set(fd, "IPV6_MULTICAST_IF", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, ifindex); err != nil {
		return err
	}
	if err := Set(fd, "IPV6_MULTICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, hops); err != nil {
		return err
	}
	return Set(fd, "IPV6_MULTICAST_LOOP", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, loop)
}

// OnlyOwnGroups stops the socket from receiving groups that only other sockets of this host have joined, including the
// same group on another interface.
//
// IPv6 compares only the group, not the interface (inet6_mc_check in net/ipv6/mcast.c), so there the socket is also
// bound to the interface. Both need newer kernels (4.20, 5.7); after an error the socket may receive such packets.
func OnlyOwnGroups(fd int, is6 bool, ifindex int) error {
	if !is6 {
		return Set(fd, "IP_MULTICAST_ALL", unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0)
	return Set(fd, "SO_BINDTOIFINDEX", unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, ifindex)
}

// Join makes a socket a member of a group on an interface.
func Join(fd int, group netip.Addr, ifindex int) error {
	if group.Is4() {
		return os.NewSyscallError("join "+group.String(), unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(ifindex)}))
	}
	return os.NewSyscallError("join "+group.String(), unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
		&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(ifindex)}))
}

// Leave ends a membership. It fails only if the interface was removed, which ends the membership too.
func Leave(fd int, group netip.Addr, ifindex int) {
	if group.Is4() {
		_ = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_DROP_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(ifindex)})
		return
	}
	_ = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_LEAVE_GROUP,
		&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(ifindex)})
}

// SetFilter makes a socket receive only datagrams for which a program returns a number of bytes above 0 (socket(7),
// SO_ATTACH_FILTER).
func SetFilter(fd int, program []bpf.Instruction) error {
	raw, err := bpf.Assemble(program)
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return os.NewSyscallError("SO_ATTACH_FILTER", unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: unsafe.SliceData(filter)}))
}

// Bind binds a socket to an address; ifindex is the interface of a link-local one.
func Bind(fd int, addr netip.AddrPort, ifindex int) error {
	sa := NewSockaddr(addr, ifindex)
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&sa.raw)), uintptr(sa.len))
	if errno != 0 {
		return os.NewSyscallError("bind", errno)
	}
	return nil
}

// LocalAddr returns the address that a socket is bound to, without the interface.
func LocalAddr(fd int) (netip.AddrPort, error) {
	sa := Sockaddr{len: unix.SizeofSockaddrInet6}
	_, _, errno := unix.Syscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&sa.raw)),
		uintptr(unsafe.Pointer(&sa.len)))
	if errno != 0 {
		return netip.AddrPort{}, os.NewSyscallError("getsockname", errno)
	}
	return sa.AddrPort(), nil
}
