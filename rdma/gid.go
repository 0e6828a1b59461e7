package rdma

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// GID is a 128-bit global identifier in network byte order: of a port, or of a multicast group, where it is called MGID
// (IBTA 4.1.1). On RoCEv2 it holds the IP address, an IPv4 address as ::ffff:a.b.c.d.
type GID [16]byte

// GIDFromIP returns the RoCEv2 GID of an IP address; the zero GID for an invalid address (kernel
// include/rdma/ib_addr.h, rdma_ip2gid).
func GIDFromIP(ip netip.Addr) GID {
	if !ip.IsValid() {
		return GID{}
	}
	return ip.As16()
}

// ParseGID parses an IPv6 address, or an IPv4 address, which becomes ::ffff:a.b.c.d. It returns an error for other
// texts and for addresses with a zone.
func ParseGID(s string) (GID, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return GID{}, fmt.Errorf("rdma: %q is not a GID, which has the form of an IPv6 address", s)
	}
	return ip.As16(), nil
}

// IP returns the GID as an IP address: an IPv4 address if it is v4-mapped (kernel include/rdma/ib_addr.h, rdma_gid2ip).
func (g GID) IP() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// String returns the text form of an IPv6 address ("ff12:4001:ffff::f01:203").
func (g GID) String() string { return netip.AddrFrom16(g).String() }

// IsZero reports whether all bytes are zero.
func (g GID) IsZero() bool { return g == GID{} }

// IsV4Mapped reports whether the GID holds an IPv4 address.
func (g GID) IsV4Mapped() bool { return netip.AddrFrom16(g).Is4In6() }

// IsMulticast reports whether a queue pair can be attached to the GID: it begins with 0xff, or it contains a multicast
// IPv4 address (kernel include/rdma/ib_addr.h, rdma_is_multicast_addr).
func (g GID) IsMulticast() bool { return g[0] == 0xff || g.IsV4Mapped() && g[12]&0xf0 == 0xe0 }

// GIDFromParts returns the GID with the subnet prefix and interface id.
func GIDFromParts(prefix, interfaceID uint64) (g GID) {
	binary.BigEndian.PutUint64(g[:8], prefix)
	binary.BigEndian.PutUint64(g[8:], interfaceID)
	return g
}
