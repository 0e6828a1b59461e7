package rocev2

import (
	"encoding/binary"

	"github.com/fanfaremq/fanfare/internal/crc"
	"github.com/fanfaremq/fanfare/rdma"
)

// Path has the fields of the IP and UDP headers that the ICRC covers. Either both Src and Dst are v4-mapped or neither.
// Only one goroutine at a time may use a Path.
type Path struct {
	Src, Dst         rdma.GID
	SrcPort, DstPort uint16
	// ID and DontFragment are fields of IPv4. ID is that of the first packet of a train.
	ID           uint16
	DontFragment bool

	// pseudo is the part before the BTH, with the masked fields set to ones. It is a field because a local variable passed
	// to crc32 would be allocated on the heap at each call.
	pseudo [8 + 40 + 8]byte
}

// IsIPv4 reports whether the path is IPv4.
func (p *Path) IsIPv4() bool { return p.Dst.IsV4Mapped() }

// Prefix returns the CRC up to the BTH, for a datagram with size bytes from the BTH to the ICRC.
func (p *Path) Prefix(size int) uint32 {
	b := p.pseudo[:]
	for i := range 8 {
		b[i] = 0xff
	}
	n := 8
	if p.IsIPv4() {
		n += p.maskedIPv4(b[8:], size)
	} else {
		n += p.maskedIPv6(b[8:], size)
	}
	binary.BigEndian.PutUint16(b[n:], p.SrcPort)
	binary.BigEndian.PutUint16(b[n+2:], p.DstPort)
	binary.BigEndian.PutUint16(b[n+4:], uint16(udpBytes+size))
	b[n+6], b[n+7] = 0xff, 0xff
	return crc.IEEE.Update(0, b[:n+udpBytes])
}

func (p *Path) maskedIPv4(b []byte, size int) int {
	b[0], b[1] = 0x45, 0xff
	binary.BigEndian.PutUint16(b[2:], uint16(ipv4Bytes+udpBytes+size))
	binary.BigEndian.PutUint16(b[4:], p.ID)
	b[6], b[7] = 0, 0
	if p.DontFragment {
		b[6] = dontFragment
	}
	b[8], b[9], b[10], b[11] = 0xff, protoUDP, 0xff, 0xff
	copy(b[12:16], p.Src[12:])
	copy(b[16:20], p.Dst[12:])
	return ipv4Bytes
}

func (p *Path) maskedIPv6(b []byte, size int) int {
	b[0], b[1], b[2], b[3] = 0x6f, 0xff, 0xff, 0xff
	binary.BigEndian.PutUint16(b[4:], uint16(udpBytes+size))
	b[6], b[7] = protoUDP, 0xff
	copy(b[8:24], p.Src[:])
	copy(b[24:40], p.Dst[:])
	return ipv6Bytes
}

// Sum returns the ICRC of a datagram, from the CRC up to the BTH. b has the datagram from the BTH to the ICRC, at least
// MinBytes. Sum ignores the ICRC, and changes b[4] temporarily, so no other goroutine may use b.
func Sum(prefix uint32, b []byte) uint32 {
	masked := b[4]
	b[4] = 0xff
	sum := crc.IEEE.Update(prefix, b[:len(b)-ICRCBytes])
	b[4] = masked
	return sum
}

// SetICRC writes the ICRC.
func SetICRC(prefix uint32, b []byte) {
	binary.LittleEndian.PutUint32(b[len(b)-ICRCBytes:], Sum(prefix, b))
}

// Want returns the ICRC in a datagram.
func Want(b []byte) uint32 { return binary.LittleEndian.Uint32(b[len(b)-ICRCBytes:]) }
