package tap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Why a frame contains no datagram.
var (
	errNotUDP   = errors.New("not UDP")
	errFragment = errors.New("part of a fragmented IP datagram; fragments are not reassembled")
	errCut      = errors.New("truncated: the capture holds only the beginning of its packets")
)

// linkType is a link type of https://www.tcpdump.org/linktypes.html.
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

// linkHeaders are the supported link types: the length of their headers, and the offset of the protocol; -1: none.
var linkHeaders = map[linkType]struct{ length, proto int }{
	linkNull: {4, -1}, linkLoop: {4, -1}, linkRawBSD: {0, -1}, linkRaw: {0, -1}, linkIPv4: {0, -1}, linkIPv6: {0, -1},
	linkEthernet: {14, 12}, linkSLL: {16, 14}, linkSLL2: {20, 0}, linkERF: {}, linkIB: {},
}

func checkLink(link linkType) error {
	if _, ok := linkHeaders[link]; !ok {
		return fmt.Errorf("frames of link type %d are not supported; Ethernet, raw IP, Linux cooked captures and InfiniBand are", link)
	}
	return nil
}

type datagram struct {
	from, to netip.AddrPort
	payload  []byte
}

func packetOf(link linkType, b []byte) (proto uint16, packet []byte, err error) {
	h := linkHeaders[link]
	if len(b) <= h.length {
		return 0, nil, errCut
	}
	switch {
	case h.proto >= 0:
		return binary.BigEndian.Uint16(b[h.proto:]), b[h.length:], nil
	case b[h.length]>>4 == 6:
		return protoIPv6, b[h.length:], nil
	}
	return protoIPv4, b[h.length:], nil
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

// erfOf is the frame in a record of ERF (https://wiki.wireshark.org/ERF), the format of ibdump and
// capture cards: it skips the header, extension headers and the padding of Ethernet.
func erfOf(b []byte) (linkType, []byte, error) {
	const header, extension, more = 16, 8, 0x80
	if len(b) < header {
		return 0, nil, errCut
	}
	kind, next := b[8]&^more, b[8]&more != 0
	for b = b[header:]; next; b = b[extension:] {
		if len(b) < extension {
			return 0, nil, errCut
		}
		next = b[0]&more != 0
	}
	switch kind {
	case 2, 11, 16, 20: // ETH, COLOR_ETH, DSM_COLOR_ETH, COLOR_HASH_ETH
		if len(b) < 2 {
			return 0, nil, errCut
		}
		return linkEthernet, b[2:], nil
	case 21: // INFINIBAND
		return linkIB, b, nil
	case 22: // IPV4
		return linkIPv4, b, nil
	case 23: // IPV6
		return linkIPv6, b, nil
	}
	return 0, nil, fmt.Errorf("records of ERF of type %d, which is not Ethernet, IP or InfiniBand", kind)
}

// udOf finds the Unreliable Datagram in an InfiniBand frame: LRH, GRH if present, BTH and the
// following headers, VCRC. InfiniBand Architecture Specification, volume 1, §5.2.
func udOf(b []byte) (Packet, []byte, error) {
	const lrh, grh, vcrc = 8, 40, 2
	if len(b) < lrh {
		return Packet{}, nil, errCut
	}
	length := int(binary.BigEndian.Uint16(b[4:])&0x7ff) * 4 // up to the VCRC
	d := Packet{From: fmt.Sprintf("lid:%d", binary.BigEndian.Uint16(b[6:])), To: fmt.Sprintf("lid:%d", binary.BigEndian.Uint16(b[2:]))}
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
		d.From, d.To = netip.AddrFrom16([16]byte(b[8:])).String(), to.String()
		if a, ok := ipOfMGID(to.As16()); ok {
			d.To = udAddress(a)
		}
		return d, b[grh:], nil
	}
	return d, nil, errNotUDP
}

// ipOfMGID is the IPv4 address that an MGID was derived from: docs/protocol §17.2.
func ipOfMGID(g [16]byte) (netip.Addr, bool) {
	if g[0] != 0xff || g[2] != 0x40 || g[3] != 0x01 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte{0xe0 | g[12]&0x0f, g[13], g[14], g[15]}), true
}

// split yields the packets of a UDP datagram in a capture. With segmentation offload a capture shows a whole
// train as one datagram: packets of one stream, all of the same length except the last, which may be shorter.
func split(b []byte) iter.Seq[[]byte] {
	if len(b) == 0 {
		return slices.Values([][]byte{b})
	}
	return slices.Chunk(b, segment(b))
}

// segment is the packet length of the train b; len(b) if it is a single packet.
func segment(b []byte) int {
	if len(b) < 2*wire.HeaderLen {
		return len(b)
	}
	stream := b[16:wire.HeaderLen] // publisher and epoch; for signed packets the salt and part of the signature
	at := wire.HeaderLen
	for range maxTries {
		i := bytes.Index(b[at:], stream)
		if i < 0 {
			break
		}
		at += i
		if size := at - 16; size >= wire.HeaderLen && isTrain(b, size) {
			return size
		}
		at++
	}
	return len(b)
}

// isTrain reports whether packets of one train begin at each multiple of size.
func isTrain(b []byte, size int) bool {
	follows := followsInStream
	switch {
	case size < len(b)/maxTrain:
		return false
	case wire.IsSealed(b):
		follows = followsSealed
	case wire.IsSigned(b):
		follows = followsSigned
	}
	last := b[:size]
	for p := range slices.Chunk(b[size:], size) {
		if !follows(last, p) {
			return false
		}
		last = p
	}
	return true
}

// followsInStream reports whether p is valid and of the same stream as the packet before. New data is in sequence.
func followsInStream(last, p []byte) bool {
	before, err1 := wire.ParseHeader(last)
	h, err2 := wire.ParseHeader(p)
	if err1 != nil || err2 != nil ||
		h.GroupTag != before.GroupTag || h.Publisher != before.Publisher || h.Epoch != before.Epoch {
		return false
	}
	if before.Type != wire.TypeData || h.Type != wire.TypeData {
		return true
	}
	old, err1 := wire.ParseData(last)
	d, err2 := wire.ParseData(p)
	return err1 == nil && err2 == nil && (h.Flags&wire.FlagRepair != 0 || d.Seq > old.Seq)
}

// followsSealed is followsInStream for sealed packets: they have the same key, time, sender and
// train, and consecutive counters. docs/protocol §27.2.
func followsSealed(last, p []byte) bool {
	next := wire.ParseSealed(last).Counter + 1
	return wire.IsSealed(p) && bytes.Equal(p[8:40], last[8:40]) && wire.ParseSealed(p).Counter == next
}

// followsSigned is followsInStream for signed packets: all fields are equal except their nodes,
// which are consecutive. docs/protocol §29.3.
func followsSigned(last, p []byte) bool {
	const node = 3
	return min(len(last), len(p)) >= wire.SignedLen && p[node] == last[node]+1 &&
		bytes.Equal(p[:node], last[:node]) && bytes.Equal(p[node+1:wire.SignedLen], last[node+1:wire.SignedLen])
}

const (
	maxTrain = 128 // packets of a train: udp(7), UDP_MAX_SEGMENTS
	maxTries = 8   // bounds the work for a packet that contains copies of its own header
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

const maxDepth = 12

// minUnder is the minimum length of the headers of protocols over Ethernet, including what they enclose.
var minUnder = map[uint16]int{protoIPv4: 20, protoIPv6: 40, protoPPPoE: 9, protoERSPAN2: 8}

// udpUnder finds the innermost UDP datagram in a packet of a protocol over Ethernet.
func udpUnder(proto uint16, b []byte, depth int) (datagram, error) {
	if depth > maxDepth {
		return datagram{}, fmt.Errorf("more than %d tunnel headers", maxDepth)
	}
	if len(b) < minUnder[proto] {
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
	case protoERSPAN2: // after GRE: draft-foschiano-erspan-03, section 4.2
		return udpUnder(protoEthernet, b[8:], depth)
	}
	if proto < 0x600 { // a length: IEEE 802.3, such as spanning tree
		return datagram{}, errNotUDP
	}
	return datagram{}, fmt.Errorf("protocol over Ethernet %#04x, not supported", proto)
}

// udpBehind continues after a header with the given length; at is the offset of the next protocol in it.
func udpBehind(b []byte, at, header, depth int) (datagram, error) {
	if len(b) <= header {
		return datagram{}, errCut
	}
	return udpUnder(binary.BigEndian.Uint16(b[at:]), b[header:], depth)
}

// udpInMPLS follows the labels to the last (RFC 3032, section 2.1). The first nibble after them
// gives the next protocol: RFC 4385, section 3.
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
	case total == 0: // longer than the field allows: segmentation offload
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
			if binary.BigEndian.Uint16(b[2:])&^6 != 0 { // a fragment
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

// unlessOthers is errNotUDP for a protocol over IP that cannot enclose packets of Fanfare.
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
	return datagram{}, unlessOthers(proto, fmt.Errorf("protocol over IP %d, not supported", proto))
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
		return datagram{}, fmt.Errorf("GRE with routing, or of version %d, not supported", b[1]&7)
	}
	// type I, without a header
	if binary.BigEndian.Uint16(b[2:]) == protoERSPAN2 && b[0]&sequence == 0 && len(b) >= header {
		return udpUnder(protoEthernet, b[header:], depth)
	}
	return udpBehind(b, 2, header, depth)
}

// udpInTunnel is the datagram inside a VXLAN or Geneve datagram, otherwise d itself.
func udpInTunnel(d datagram, depth int) (datagram, error) {
	b := d.payload
	switch {
	case d.to.Port() == portVXLAN && len(b) > 8 && b[0] == 8: // a network identifier is present
		return udpUnder(protoEthernet, b[8:], depth)
	case d.to.Port() == portGeneve && len(b) > 8 && b[0]>>6 == 0:
		return udpBehind(b, 2, 8+int(b[0]&63)*4, depth)
	}
	return d, nil
}
