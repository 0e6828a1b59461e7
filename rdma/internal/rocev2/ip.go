package rocev2

import (
	"encoding/binary"
	"errors"

	"github.com/fanfaremq/fanfare/rdma"
)

const (
	ipv4Bytes    = 20
	ipv6Bytes    = 40
	udpBytes     = 8
	protoUDP     = 17
	dontFragment = 0x40 // in byte 6
)

// HeaderBytes returns the length of IP and UDP header.
func HeaderBytes(ipv4 bool) int {
	if ipv4 {
		return ipv4Bytes + udpBytes
	}
	return ipv6Bytes + udpBytes
}

// ErrIP: the bytes are not an IPv4 or IPv6 packet with a complete UDP datagram, without options or extension headers,
// and with consistent lengths.
var ErrIP = errors.New("rocev2: not a complete UDP datagram in an IP packet without options")

// Net has the fields of the IP header that the ICRC does not cover.
type Net struct {
	TrafficClass uint8 // type of service
	HopLimit     uint8 // time to live
	FlowLabel    uint32
}

// PutIP writes IP and UDP header of a datagram with size bytes from the BTH to the ICRC, and returns their length. The
// UDP checksum is 0, as usual for RoCEv2.
func (p *Path) PutIP(b []byte, n *Net, size int) int {
	h := rdma.Header{Src: p.Src, Dst: p.Dst, TrafficClass: n.TrafficClass, FlowLabel: n.FlowLabel, HopLimit: n.HopLimit,
		PayloadLength: uint16(udpBytes + size)}
	var area [rdma.GRHBytes]byte
	rdma.PutGRH(area[:], rdma.LinkLayerEthernet, &h, p.ID)
	at := ipv6Bytes
	if p.IsIPv4() {
		at = ipv4Bytes
		if !p.DontFragment {
			// The checksum increases by the bit that is cleared in the word with the flags (RFC 1624).
			area[20+6] = 0
			sum := uint32(binary.BigEndian.Uint16(area[20+10:])) + dontFragment<<8
			binary.BigEndian.PutUint16(area[20+10:], uint16(sum+sum>>16))
		}
	}
	copy(b, area[rdma.GRHBytes-at:])
	binary.BigEndian.PutUint16(b[at:], p.SrcPort)
	binary.BigEndian.PutUint16(b[at+2:], p.DstPort)
	binary.BigEndian.PutUint16(b[at+4:], uint16(udpBytes+size))
	b[at+6], b[at+7] = 0, 0
	return at + udpBytes
}

// ParseIP parses IP and UDP header of a packet and returns the datagram from the BTH on, without bytes after the end of
// the IP packet. It checks neither the header checksum nor the UDP checksum, because the ICRC covers more.
func (p *Path) ParseIP(b []byte, n *Net) ([]byte, error) {
	if len(b) < ipv4Bytes+udpBytes {
		return nil, ErrIP
	}
	at := ipv4Bytes
	switch {
	case b[0] == 0x45:
		total := int(binary.BigEndian.Uint16(b[2:]))
		if b[9] != protoUDP || total > len(b) || total < ipv4Bytes+udpBytes || b[6]&^byte(dontFragment) != 0 || b[7] != 0 {
			return nil, ErrIP
		}
		b = b[:total]
		n.TrafficClass, n.HopLimit, n.FlowLabel = b[1], b[8], 0
		p.ID, p.DontFragment = binary.BigEndian.Uint16(b[4:]), b[6]&dontFragment != 0
		p.Src, p.Dst = rdma.GID{10: 0xff, 11: 0xff}, rdma.GID{10: 0xff, 11: 0xff}
		copy(p.Src[12:], b[12:])
		copy(p.Dst[12:], b[16:])
	case b[0]>>4 == 6 && len(b) >= ipv6Bytes+udpBytes:
		at = ipv6Bytes
		total := ipv6Bytes + int(binary.BigEndian.Uint16(b[4:]))
		if b[6] != protoUDP || total > len(b) || total < ipv6Bytes+udpBytes {
			return nil, ErrIP
		}
		b = b[:total]
		first := binary.BigEndian.Uint32(b)
		n.TrafficClass, n.FlowLabel, n.HopLimit = uint8(first>>20), first&0xfffff, b[7]
		p.ID, p.DontFragment = 0, false
		p.Src, p.Dst = rdma.GID(b[8:]), rdma.GID(b[24:])
		if p.Src.IsV4Mapped() || p.Dst.IsV4Mapped() {
			return nil, ErrIP // no valid IPv6 packet has such an address (RFC 4291 §2.5.5.2)
		}
	default:
		return nil, ErrIP
	}
	p.SrcPort, p.DstPort = binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint16(b[at+2:])
	if int(binary.BigEndian.Uint16(b[at+4:])) != len(b)-at {
		return nil, ErrIP
	}
	return b[at+udpBytes:], nil
}
