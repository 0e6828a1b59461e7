package tap

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Protocols over Ethernet (https://www.iana.org/assignments/ieee-802-numbers).
const (
	protoIPv4     = 0x0800
	protoARP      = 0x0806
	protoEthernet = 0x6558 // transparent Ethernet bridging
	protoVLAN     = 0x8100
	protoIPv6     = 0x86dd
	protoMPLS     = 0x8847
	protoMPLSAny  = 0x8848
	protoPPPoE    = 0x8864
	protoQinQ     = 0x88a8
	protoERSPAN2  = 0x88be
	protoLLDP     = 0x88cc
	protoOldTag   = 0x9100 // QinQ before IEEE 802.1ad
)

// Protocols over IP (https://www.iana.org/assignments/protocol-numbers).
const (
	ipHopByHop = 0
	ipICMP     = 1
	ipIGMP     = 2
	ipIPv4     = 4
	ipTCP      = 6
	ipUDP      = 17
	ipIPv6     = 41
	ipRouting  = 43
	ipFragment = 44
	ipGRE      = 47
	ipICMPv6   = 58
	ipOptions  = 60
)

// UDP ports of tunnels: VXLAN (RFC 7348, section 5) and Geneve (RFC 8926, section 3.3).
const (
	portVXLAN  = 4789
	portGeneve = 6081
)

// maxDepth bounds how many headers of tunnels are followed.
const maxDepth = 12

// leastUnder is how long the headers of protocols over Ethernet are at least, with what they lead to.
var leastUnder = map[uint16]int{protoIPv4: 20, protoIPv6: 40, protoPPPoE: 9, protoERSPAN2: 8}

// udpUnder finds the innermost UDP datagram in a packet of a protocol over Ethernet.
func udpUnder(proto uint16, b []byte, depth int) (datagram, error) {
	if depth > maxDepth {
		return datagram{}, fmt.Errorf("more than %d headers of tunnels", maxDepth)
	}
	if len(b) < leastUnder[proto] {
		return datagram{}, errCut
	}
	depth++
	switch proto {
	case protoIPv4:
		return udpInIPv4(b, depth)
	case protoIPv6:
		return udpInIPv6(b, depth)
	case protoARP, protoLLDP:
		return datagram{}, errNotUDP
	case protoVLAN, protoQinQ, protoOldTag:
		return udpBehind(b, 2, 4, depth)
	case protoEthernet:
		return udpBehind(b, 12, 14, depth)
	case protoMPLS, protoMPLSAny:
		return udpInMPLS(b, depth)
	case protoPPPoE:
		return udpInPPPoE(b, depth)
	case protoERSPAN2: // behind GRE: draft-foschiano-erspan-03, section 4.2
		return udpUnder(protoEthernet, b[8:], depth)
	}
	if proto < 0x600 { // a length: IEEE 802.3, as of spanning trees
		return datagram{}, errNotUDP
	}
	return datagram{}, fmt.Errorf("the protocol over Ethernet %#04x, which is not read", proto)
}

// udpBehind follows a header of that many bytes, in which the next protocol stands at an offset.
func udpBehind(b []byte, at, header, depth int) (datagram, error) {
	if len(b) <= header {
		return datagram{}, errCut
	}
	return udpUnder(binary.BigEndian.Uint16(b[at:]), b[header:], depth)
}

// udpInMPLS follows labels to the last (RFC 3032, section 2.1). What they lead to, a first nibble tells:
// RFC 4385, section 3.
func udpInMPLS(b []byte, depth int) (datagram, error) {
	for last := false; !last; b = b[4:] {
		if len(b) <= 4 {
			return datagram{}, errCut
		}
		last = b[2]&1 != 0
	}
	switch b[0] >> 4 {
	case 4:
		return udpUnder(protoIPv4, b, depth)
	case 6:
		return udpUnder(protoIPv6, b, depth)
	case 0: // the control word of a pseudowire
		if len(b) < 4 {
			return datagram{}, errCut
		}
		return udpUnder(protoEthernet, b[4:], depth)
	}
	return udpUnder(protoEthernet, b, depth)
}

// udpInPPPoE: RFC 2516, section 4, and the numbers of PPP for IP.
func udpInPPPoE(b []byte, depth int) (datagram, error) {
	switch p := binary.BigEndian.Uint16(b[6:]); p {
	case 0x0021:
		return udpUnder(protoIPv4, b[8:], depth)
	case 0x0057:
		return udpUnder(protoIPv6, b[8:], depth)
	}
	return datagram{}, errNotUDP
}

func udpInIPv4(b []byte, depth int) (datagram, error) {
	header, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	switch {
	case b[0]>>4 != 4, header < 20:
		return datagram{}, errNotUDP
	case binary.BigEndian.Uint16(b[6:])&0x3fff != 0: // more fragments, or an offset
		return datagram{}, unlessOthers(b[9], errFragment)
	case total == 0: // longer than the field: segmentation offload
		total = len(b)
	}
	if total > len(b) {
		return datagram{}, unlessOthers(b[9], errCut)
	}
	if total < header {
		return datagram{}, errNotUDP
	}
	return udpInIP(b[9], netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), b[header:total], depth)
}

func udpInIPv6(b []byte, depth int) (datagram, error) {
	if b[0]>>4 != 6 {
		return datagram{}, errNotUDP
	}
	total, next := 40+int(binary.BigEndian.Uint16(b[4:])), b[6]
	if total > len(b) {
		return datagram{}, unlessOthers(next, errCut)
	}
	from, to := netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	for b = b[40:total]; ; {
		length := 8
		switch next {
		case ipHopByHop, ipRouting, ipOptions: // RFC 8200, section 4
			if len(b) < 2 {
				return datagram{}, errNotUDP
			}
			length = 8 + int(b[1])*8
		case ipFragment:
			if len(b) < 8 {
				return datagram{}, errNotUDP
			}
			if binary.BigEndian.Uint16(b[2:])&^6 != 0 { // not whole
				return datagram{}, unlessOthers(b[0], errFragment)
			}
		default:
			return udpInIP(next, from, to, b, depth)
		}
		if len(b) < length {
			return datagram{}, errNotUDP
		}
		next, b = b[0], b[length:]
	}
}

// unlessOthers is errNotUDP for a protocol over IP that cannot hold packets of Fanfare.
func unlessOthers(proto byte, err error) error {
	switch proto {
	case ipICMP, ipIGMP, ipTCP, ipICMPv6:
		return errNotUDP
	}
	return err
}

func udpInIP(proto byte, from, to netip.Addr, b []byte, depth int) (datagram, error) {
	switch proto {
	case ipUDP:
		d, err := udpBetween(from, to, b)
		if err != nil {
			return d, err
		}
		return udpInTunnel(d, depth)
	case ipIPv4:
		return udpUnder(protoIPv4, b, depth)
	case ipIPv6:
		return udpUnder(protoIPv6, b, depth)
	case ipGRE:
		return udpInGRE(b, depth)
	}
	return datagram{}, unlessOthers(proto, fmt.Errorf("the protocol over IP %d, which is not read", proto))
}

// udpInGRE: RFC 2784, section 2, and RFC 2890, section 2.
func udpInGRE(b []byte, depth int) (datagram, error) {
	if len(b) < 4 {
		return datagram{}, errCut
	}
	const checksum, key, sequence = 0x80, 0x20, 0x10
	header := 4
	for _, flag := range []byte{checksum, key, sequence} {
		if b[0]&flag != 0 {
			header += 4
		}
	}
	if b[0]&0x40 != 0 || b[1]&7 != 0 {
		return datagram{}, fmt.Errorf("GRE with routing, or of version %d, which is not read", b[1]&7)
	}
	if binary.BigEndian.Uint16(b[2:]) == protoERSPAN2 && b[0]&sequence == 0 && len(b) >= header { // of type I, without a header
		return udpUnder(protoEthernet, b[header:], depth)
	}
	return udpBehind(b, 2, header, depth)
}

// udpInTunnel is the datagram inside a datagram of VXLAN or Geneve, and d itself where it is of neither.
func udpInTunnel(d datagram, depth int) (datagram, error) {
	b := d.payload
	switch {
	case d.to.Port() == portVXLAN && len(b) > 8 && b[0] == 8: // a network is named
		return udpUnder(protoEthernet, b[8:], depth)
	case d.to.Port() == portGeneve && len(b) > 8 && b[0]>>6 == 0:
		return udpBehind(b, 2, 8+int(b[0]&63)*4, depth)
	}
	return d, nil
}
