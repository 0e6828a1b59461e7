package rdma

import (
	"fmt"
	"net/netip"
)

// Family is an address family, with Linux's numbers.
type Family uint16

// The families of the connection manager: IPv4, IPv6 and AF_IB (librdmacm cma.c, ucma_addrlen).
const (
	FamilyNone Family = 0
	FamilyUnix Family = 1
	FamilyIPv4 Family = 2
	FamilyIPv6 Family = 10
	FamilyIB   Family = 27
)

func (f Family) String() string {
	switch f {
	case FamilyNone:
		return "no family"
	case FamilyUnix:
		return "AF_UNIX"
	case FamilyIPv4:
		return "AF_INET"
	case FamilyIPv6:
		return "AF_INET6"
	case FamilyIB:
		return "AF_IB"
	}
	return fmt.Sprintf("Family(%d)", uint16(f))
}

// Addr is an address of the connection manager (struct sockaddr). The zero Addr means no address (NULL). Addrs are
// comparable.
type Addr struct {
	Family Family
	IP     netip.Addr // of FamilyIPv4 and FamilyIPv6
	GID    GID        // of FamilyIB
	Port   uint16     // host byte order; not used for multicast groups
	// FlowInfo and ScopeID are those of sockaddr_in6.
	FlowInfo uint32
	ScopeID  uint32
}

// IPAddr returns the address without a port. A v4-mapped IPv6 address becomes an IPv4 address.
func IPAddr(ip netip.Addr) Addr { return IPPortAddr(netip.AddrPortFrom(ip, 0)) }

// IPPortAddr returns the address with a port.
func IPPortAddr(ap netip.AddrPort) Addr {
	ip := ap.Addr().Unmap().WithZone("")
	switch {
	case ip.Is4():
		return Addr{Family: FamilyIPv4, IP: ip, Port: ap.Port()}
	case ip.Is6():
		return Addr{Family: FamilyIPv6, IP: ip, Port: ap.Port()}
	}
	return Addr{}
}

// IBAddr returns an AF_IB address, which names a GID or MGID directly.
func IBAddr(g GID) Addr { return Addr{Family: FamilyIB, GID: g} }

// ParseAddr reads an IPv4 or IPv6 address without a port.
func ParseAddr(s string) (Addr, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return Addr{}, fmt.Errorf("rdma: %q is not an IP address", s)
	}
	return IPAddr(ip), nil
}

// Size is the length of the sockaddr in bytes: 16, 28 or 48; 0 for an address for which the connection manager returns
// EINVAL (librdmacm cma.c, ucma_addrlen).
func (a Addr) Size() int {
	switch {
	case a.Family == FamilyIPv4 && a.IP.Is4():
		return 16
	case a.Family == FamilyIPv6 && a.IP.Is6():
		return 28
	case a.Family == FamilyIB:
		return 48
	}
	return 0
}

// Group returns the address without port, flow and scope, which do not identify a group. The C library compares whole
// sockaddrs, so that a leave with another port than that of the join fails (librdmacm cma.c, rdma_leave_multicast);
// here joins and leaves compare Groups.
func (a Addr) Group() Addr {
	a.Port, a.FlowInfo, a.ScopeID = 0, 0, 0
	return a
}

// IsWildcard reports whether the address is 0.0.0.0, :: or the zero GID.
func (a Addr) IsWildcard() bool {
	if a.Family == FamilyIB {
		return a.GID.IsZero()
	}
	return a.IP.IsValid() && a.IP.IsUnspecified()
}

// IsZeroNet reports whether RoCE rejects the address in a join: 0.0.0.0/8, :: or the zero GID (kernel core/cma.c,
// cma_zero_addr).
func (a Addr) IsZeroNet() bool {
	if a.Family == FamilyIPv4 && a.IP.Is4() {
		return a.IP.As4()[0] == 0
	}
	return a.IsWildcard()
}

// IsUnicast reports whether a is the IP address of one host. 0.0.0.0 is not: in a join it makes the subnet manager
// create a group.
func (a Addr) IsUnicast() bool {
	return a.Family != FamilyIB && a.IP.IsValid() && !a.IP.IsUnspecified() && !a.IP.Unmap().IsMulticast()
}

// IsAny reports whether the address identifies no device: zero or loopback (kernel core/cma.c, cma_any_addr). An id
// bound to it is bound to no device. In a join it means a group that the subnet administrator (SA) creates.
func (a Addr) IsAny() bool { return a.IsZeroNet() || a.IP.IsValid() && a.IP.IsLoopback() }

func (a Addr) String() string {
	switch a.Family {
	case FamilyIPv4, FamilyIPv6:
		if a.Port == 0 {
			return a.IP.String()
		}
		return netip.AddrPortFrom(a.IP, a.Port).String()
	case FamilyIB:
		return "ib:" + a.GID.String()
	}
	return a.Family.String()
}
