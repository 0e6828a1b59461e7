package rdma

import "encoding/binary"

// NextHeaderIBA is the next-header value of a GRH before a BTH (IBTA 8.3).
const NextHeaderIBA = 0x1B

// protoUDP is the protocol number in the IP headers of RoCEv2.
const protoUDP = 17

// Header is the header in the GRH area of a received datagram.
type Header struct {
	Src, Dst      GID
	TrafficClass  uint8
	FlowLabel     uint32 // 20 bits; 0 from IPv4
	HopLimit      uint8
	NextHeader    uint8  // NextHeaderIBA, or 17 for RoCEv2
	PayloadLength uint16 // bytes after the header: transport headers and payload
}

// PutGRH writes the 40 bytes at the beginning of a receive buffer. On InfiniBand they are the GRH (IBTA 8.3). On RoCEv2
// they are the IPv6 header, or 20 zero bytes and the IPv4 header without options (IBTA annex A17.4.5.1; kernel
// include/rdma/ib_verbs.h, union rdma_network_hdr), with DF set and identification id. area must have GRHBytes bytes.
func PutGRH(area []byte, layer LinkLayer, h *Header, id uint16) {
	_ = area[GRHBytes-1]
	if layer == LinkLayerEthernet && h.Src.IsV4Mapped() {
		clear(area[:20])
		putIPv4(area[20:40], h, id)
		return
	}
	next := uint8(NextHeaderIBA)
	if layer == LinkLayerEthernet {
		next = protoUDP
	}
	binary.BigEndian.PutUint32(area, 6<<28|uint32(h.TrafficClass)<<20|h.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(area[4:], h.PayloadLength)
	area[6], area[7] = next, h.HopLimit
	copy(area[8:], h.Src[:])
	copy(area[24:], h.Dst[:])
}

func putIPv4(ip []byte, h *Header, id uint16) {
	ip[0], ip[1] = 0x45, h.TrafficClass
	binary.BigEndian.PutUint16(ip[2:], 20+h.PayloadLength)
	binary.BigEndian.PutUint16(ip[4:], id)
	ip[6], ip[7] = 0x40, 0
	ip[8], ip[9] = h.HopLimit, protoUDP
	ip[10], ip[11] = 0, 0
	copy(ip[12:], h.Src[12:])
	copy(ip[16:], h.Dst[12:])
	binary.BigEndian.PutUint16(ip[10:], ^onesComplement(ip))
}

// SetIPv4ID sets the identification, which must be 0 before, in a GRH area with an IPv4 header, and updates the
// header's checksum (RFC 1624).
func SetIPv4ID(area []byte, id uint16) {
	ip := area[20:GRHBytes]
	binary.BigEndian.PutUint16(ip[4:], id)
	sum := uint32(^binary.BigEndian.Uint16(ip[10:])) + uint32(id)
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum))
}

// ParseGRH parses the first GRHBytes bytes of a receive buffer. ok is false if they hold no header. On
// RoCE, the header checksum distinguishes an IPv4 header from an IPv6 header, which could begin with
// the same bytes (libibverbs verbs.c, get_grh_header_version).
func ParseGRH(layer LinkLayer, area []byte) (h Header, ok bool) {
	if len(area) < GRHBytes {
		return h, false
	}
	if layer == LinkLayerEthernet {
		ip := area[20:40]
		isIPv4 := ip[0] == 0x45 && onesComplement(ip) == 0xffff
		if isIPv4 {
			h = Header{TrafficClass: ip[1], HopLimit: ip[8], NextHeader: ip[9]}
			h.PayloadLength = binary.BigEndian.Uint16(ip[2:]) - 20
			h.Src = GID{10: 0xff, 11: 0xff}
			h.Dst = h.Src
			copy(h.Src[12:], ip[12:16])
			copy(h.Dst[12:], ip[16:20])
			return h, true
		}
	}
	if area[0]>>4 != 6 {
		return h, false
	}
	first := binary.BigEndian.Uint32(area)
	h = Header{
		Src: GID(area[8:24]), Dst: GID(area[24:40]),
		TrafficClass: uint8(first >> 20), FlowLabel: first & 0xfffff,
		HopLimit: area[7], NextHeader: area[6],
		PayloadLength: binary.BigEndian.Uint16(area[4:]),
	}
	if layer == LinkLayerEthernet && h.Src.IsV4Mapped() {
		return Header{}, false // no IPv6 packet has a mapped source (RFC 4291 §2.5.5.2): a reply would reach another host
	}
	return h, true
}

// onesComplement is the sum of RFC 1071 over the 20 bytes of an IPv4 header.
func onesComplement(ip []byte) uint16 {
	_ = ip[19]
	sum := uint64(binary.BigEndian.Uint32(ip)) + uint64(binary.BigEndian.Uint32(ip[4:])) + uint64(binary.BigEndian.Uint32(ip[8:])) +
		uint64(binary.BigEndian.Uint32(ip[12:])) + uint64(binary.BigEndian.Uint32(ip[16:]))
	// 2^16 is 1 modulo 2^16-1: adding halves is the same as adding words.
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}
