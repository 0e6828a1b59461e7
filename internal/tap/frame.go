package tap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Why a frame gives no datagram.
var (
	errNotUDP   = errors.New("not UDP")
	errFragment = errors.New("part of a datagram that was sent in IP fragments, which are not put together")
	errCut      = errors.New("cut off: the capture holds only the beginning of its packets")
)

// linkType is a number of https://www.tcpdump.org/linktypes.html.
type linkType int

const (
	linkNull     linkType = 0
	linkEthernet linkType = 1
	linkRawBSD   linkType = 12
	linkRaw      linkType = 101
	linkLoop     linkType = 108
	linkSLL      linkType = 113
	linkERF      linkType = 197
	linkIPv4     linkType = 228
	linkIPv6     linkType = 229
	linkIB       linkType = 247
	linkSLL2     linkType = 276
)

// checkLink says whether frames of that type can be read.
func checkLink(link linkType) error {
	switch link {
	case linkNull, linkEthernet, linkRawBSD, linkRaw, linkLoop, linkSLL, linkERF, linkIPv4, linkIPv6, linkIB, linkSLL2:
		return nil
	}
	return fmt.Errorf("frames of link type %d cannot be read: Ethernet, raw IP, Linux cooked captures and InfiniBand can", link)
}

// datagram is a UDP datagram of a capture.
type datagram struct {
	from, to netip.AddrPort
	payload  []byte
}

// udpOf finds the UDP datagram in a frame.
func udpOf(link linkType, b []byte) (datagram, error) {
	proto := uint16(0) // an EtherType; 0: the first byte of the packet tells
	skip := 0
	switch link {
	case linkNull, linkLoop:
		skip = 4
	case linkEthernet:
		for skip = 14; ; skip += 4 {
			if len(b) < skip {
				return datagram{}, errCut
			}
			if proto = binary.BigEndian.Uint16(b[skip-2:]); proto != 0x8100 && proto != 0x88a8 {
				break // of no VLAN
			}
		}
	case linkSLL:
		if skip = 16; len(b) >= skip {
			proto = binary.BigEndian.Uint16(b[14:])
		}
	case linkSLL2:
		if skip = 20; len(b) >= skip {
			proto = binary.BigEndian.Uint16(b)
		}
	}
	if len(b) <= skip {
		return datagram{}, errCut
	}
	b = b[skip:]
	switch {
	case proto == 0x0800 || proto == 0 && b[0]>>4 == 4:
		return udpInIPv4(b)
	case proto == 0x86dd || proto == 0 && b[0]>>4 == 6:
		return udpInIPv6(b)
	}
	return datagram{}, errNotUDP
}

const protoUDP = 17

func udpInIPv4(b []byte) (datagram, error) {
	if len(b) < 20 {
		return datagram{}, errCut
	}
	header, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	switch {
	case b[0]>>4 != 4, header < 20, b[9] != protoUDP:
		return datagram{}, errNotUDP
	case binary.BigEndian.Uint16(b[6:])&0x3fff != 0: // more fragments, or an offset
		return datagram{}, errFragment
	case total == 0: // longer than the field: segmentation offload
		total = len(b)
	}
	if total > len(b) {
		return datagram{}, errCut
	}
	if total < header {
		return datagram{}, errNotUDP
	}
	return udpBetween(netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), b[header:total])
}

func udpInIPv6(b []byte) (datagram, error) {
	if len(b) < 40 {
		return datagram{}, errCut
	}
	total := 40 + int(binary.BigEndian.Uint16(b[4:]))
	switch next := b[6]; {
	case b[0]>>4 != 6:
		return datagram{}, errNotUDP
	case next == 44:
		return datagram{}, errFragment
	case next != protoUDP: // packets of ours have no other headers
		return datagram{}, errNotUDP
	case total > len(b):
		return datagram{}, errCut
	}
	return udpBetween(netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:])), b[40:total])
}

func udpBetween(from, to netip.Addr, b []byte) (datagram, error) {
	if len(b) < 8 {
		return datagram{}, errNotUDP
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n == 0 || n > len(b) {
		n = len(b) // a train of segmentation offload
	}
	if n < 8 {
		return datagram{}, errNotUDP
	}
	return datagram{
		netip.AddrPortFrom(from, binary.BigEndian.Uint16(b)), netip.AddrPortFrom(to, binary.BigEndian.Uint16(b[2:])), b[8:n],
	}, nil
}

// udDatagram says from where to where an InfiniBand frame goes.
type udDatagram struct{ from, to string }

// infinibandOf finds the InfiniBand frame in a record of ERF, which ibdump writes.
func infinibandOf(b []byte) ([]byte, error) {
	const header, infiniband, more = 16, 21, 0x80
	switch {
	case len(b) < header:
		return nil, errCut
	case b[8] != infiniband:
		if b[8]&^more == infiniband {
			return nil, errors.New("a record of ERF with extension headers")
		}
		return nil, errNotUDP
	}
	return b[header:], nil
}

// udOf finds the Unreliable Datagram in an InfiniBand frame: LRH, GRH if it has one, BTH and
// on, VCRC. InfiniBand Architecture Specification, volume 1, §5.2.
func udOf(b []byte) (udDatagram, []byte, error) {
	const lrh, grh, vcrc = 8, 40, 2
	if len(b) < lrh {
		return udDatagram{}, nil, errCut
	}
	length := int(binary.BigEndian.Uint16(b[4:])&0x7ff) * 4 // up to the VCRC
	d := udDatagram{from: fmt.Sprintf("lid:%d", binary.BigEndian.Uint16(b[6:])), to: fmt.Sprintf("lid:%d", binary.BigEndian.Uint16(b[2:]))}
	kind := b[1] & 3 // LNH
	if len(b) < length || length < lrh {
		return d, nil, errCut
	}
	b = b[lrh:length]
	switch kind {
	case 2:
		return d, b, nil
	case 3:
		if len(b) < grh {
			return d, nil, errCut
		}
		to := netip.AddrFrom16([16]byte(b[24:]))
		d.from, d.to = netip.AddrFrom16([16]byte(b[8:])).String(), to.String()
		if a, ok := ipOfMGID(to.As16()); ok {
			d.to = udAddress(a)
		}
		return d, b[grh:], nil
	}
	return d, nil, errNotUDP
}

// ipOfMGID is the IPv4 address that an MGID was made of: docs/protocol.md §17.2.
func ipOfMGID(g [16]byte) (netip.Addr, bool) {
	if g[0] != 0xff || g[2] != 0x40 || g[3] != 0x01 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte{0xe0 | g[12]&0x0f, g[13], g[14], g[15]}), true
}
