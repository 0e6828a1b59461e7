package sys

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sockaddr is an IP address and a port in the kernel's format (struct sockaddr_in, sockaddr_in6).
type Sockaddr struct {
	raw unix.RawSockaddrInet6 // large enough for IPv4 too
	len uint32
}

// NewSockaddr converts an address. ifindex is the interface of a link-local address; for others it is ignored.
func NewSockaddr(a netip.AddrPort, ifindex int) (s Sockaddr) {
	ip, port := a.Addr(), networkOrder(a.Port())
	if ip.Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		*v4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: ip.As4()}
		s.len = unix.SizeofSockaddrInet4
		return s
	}
	s.raw = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: ip.As16()}
	if ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsInterfaceLocalMulticast() {
		s.raw.Scope_id = uint32(ifindex)
	}
	s.len = unix.SizeofSockaddrInet6
	return s
}

// networkOrder converts a port to the byte order of a socket address, and back.
func networkOrder(port uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	return binary.NativeEndian.Uint16(b[:])
}

// Is6 reports whether it is an IPv6 address.
func (s *Sockaddr) Is6() bool { return s.raw.Family == unix.AF_INET6 }

// SetInterface changes the interface of an address that has one.
func (s *Sockaddr) SetInterface(ifindex int) {
	if s.Is6() && s.raw.Scope_id != 0 {
		s.raw.Scope_id = uint32(ifindex)
	}
}

// AddrPort converts it back, without the interface.
func (s *Sockaddr) AddrPort() netip.AddrPort {
	if !s.Is6() {
		return netip.AddrPortFrom(netip.AddrFrom4(s.v4()), s.Port())
	}
	return netip.AddrPortFrom(netip.AddrFrom16(s.raw.Addr), s.Port())
}

// As16 returns the IP address; an IPv4 address as ::ffff:a.b.c.d.
func (s *Sockaddr) As16() [16]byte {
	if !s.Is6() {
		return netip.AddrFrom4(s.v4()).As16()
	}
	return s.raw.Addr
}

// Port returns the port.
func (s *Sockaddr) Port() uint16 { return networkOrder(s.raw.Port) }

func (s *Sockaddr) v4() [4]byte { return (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw)).Addr }
