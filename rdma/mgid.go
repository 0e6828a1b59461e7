package rdma

// PortSpace is the port space of an id (enum rdma_port_space of rdma_cma.h). It
// decides the type of its queue pairs and the signature in its MGIDs.
type PortSpace uint16

const (
	// PortSpaceIPoIB is UD, with the groups of IP over InfiniBand. It does not exist on RoCE.
	PortSpaceIPoIB PortSpace = 0x0002
	// PortSpaceTCP is reliable-connected; it cannot join groups.
	PortSpaceTCP PortSpace = 0x0106
	// PortSpaceUDP is UD, with UDPQKey. It is the usual one for multicast.
	PortSpaceUDP PortSpace = 0x0111
	// PortSpaceIB is reliable-connected with native addresses.
	PortSpaceIB PortSpace = 0x013F
)

// IsUD reports whether ids of the port space have UD queue pairs (librdmacm cma.c, rdma_create_id).
func (p PortSpace) IsUD() bool { return p == PortSpaceUDP || p == PortSpaceIPoIB }

func (p PortSpace) String() string {
	switch p {
	case PortSpaceIPoIB:
		return "IPOIB"
	case PortSpaceTCP:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	case PortSpaceIB:
		return "IB"
	}
	return "PortSpace(" + LID(p).String() + ")"
}

// DefaultScope is the scope of IPoIB unless configured otherwise: link-local.
const DefaultScope = 2

// MGIDForIB returns the MGID for a join of a on InfiniBand. scope and pkey are those of the port's IPoIB interface:
// scope is the low nibble of byte 5 of its broadcast address, and pkey has the membership bit as in that address. For a
// zero or loopback address it returns the zero MGID, which makes the SA choose an MGID.
//
// The MGID contains only 28 bits of an IPv4 and 80 bits of an IPv6 address, so that several addresses have the same
// MGID. In particular it does not contain the IPv6 scope (kernel core/cma.c, cma_set_mgid; include/net/ip.h,
// ip_ib_mc_map; include/net/if_inet6.h, ipv6_ib_mc_map). docs/protocol §17.2.
func MGIDForIB(a Addr, ps PortSpace, scope uint8, pkey PKey) GID {
	if a.Size() == 0 || a.IsAny() {
		return GID{}
	}
	if a.Family == FamilyIB {
		return a.GID
	}
	signature := byte(0x1b)
	if ps == PortSpaceUDP {
		signature = 0x01 // that of the connection manager
	}
	g := GID{0: 0xff, 1: 0x10 | scope&0x0f, 3: signature, 4: byte(pkey >> 8), 5: byte(pkey)}
	if a.Family == FamilyIPv4 {
		ip := a.IP.As4()
		g[2] = 0x40
		copy(g[12:], ip[:])
		g[12] &= 0x0f
		return g
	}
	ip := a.IP.As16()
	if ip[0] == 0xff && ip[1]&0xf0 == 0x10 && ip[2] == 0xa0 && ip[3] == 0x1b {
		return GID(ip) // chosen by the SA before
	}
	g[2] = 0x60
	copy(g[6:], ip[6:])
	return g
}

// MGIDForRoCE returns the MGID for a join of a on RoCE: on version 2 the IP address, IPv4 as ::ffff:a.b.c.d; on version
// 1 an IPv4 address as ff0e::ffff:a.b.c.d. For a zero or loopback address it returns the zero MGID, to which a queue
// pair cannot be attached (kernel core/cma.c, cma_iboe_set_mgid). docs/protocol §17.2.
func MGIDForRoCE(a Addr, typ GIDType) GID {
	switch {
	case a.Size() == 0 || a.IsAny():
		return GID{}
	case a.Family == FamilyIB:
		return a.GID
	case a.Family == FamilyIPv4 && typ == GIDTypeRoCEv1:
		g := GIDFromIP(a.IP)
		g[0], g[1] = 0xff, 0x0e
		return g
	}
	return GIDFromIP(a.IP)
}

// MulticastMAC returns the Ethernet address of a RoCEv2 multicast group: 01:00:5e and the low 23 bits of an IPv4 group,
// so that 32 groups have the same address, or 33:33 and the low 32 bits (kernel core/verbs.c, ib_resolve_eth_dmac; RFC
// 1112 section 6.4; RFC 2464 section 7). ok is false if the GID is not multicast.
func (g GID) MulticastMAC() (mac [6]byte, ok bool) {
	if !g.IsMulticast() {
		return mac, false
	}
	if g.IsV4Mapped() {
		return [6]byte{0x01, 0x00, 0x5e, g[13] & 0x7f, g[14], g[15]}, true
	}
	return [6]byte{0x33, 0x33, g[12], g[13], g[14], g[15]}, true
}
