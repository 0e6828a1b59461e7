package rocev2

import (
	"encoding/binary"

	"github.com/fanfaremq/fanfare/internal/crc"
	"github.com/fanfaremq/fanfare/rdma"
)

// Path has the fields of the IP and UDP headers that the ICRC covers. Src and Dst are both v4-mapped or
// both not. A Path is used by one goroutine at a time.
type Path struct {
	Src, Dst         rdma.GID
	SrcPort, DstPort uint16
	// ID and DontFragment are of IPv4; Path.ID is that of the first packet of a train.
	ID           uint16
	DontFragment bool

	// pseudo is the part before the BTH, with ones where the ICRC has them. It is here because what crc32 reads must not
	// be on the stack: it would move to the heap at each call.
	pseudo [8 + 40 + 8]byte
}

// IsIPv4 reports the version.
func (p *Path) IsIPv4() bool { return p.Dst.IsV4Mapped() }

// Prefix is the CRC up to the BTH of a datagram with size bytes from the BTH to the ICRC.
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

// Sum computes the ICRC of a datagram, given the CRC up to the BTH. b extends from the BTH to the ICRC, and must be at
// least as long as ErrShort demands. The bytes of the ICRC are ignored. Byte 4 of b changes meanwhile, so no other
// goroutine may use b.
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

// Want is the ICRC that a datagram carries.
func Want(b []byte) uint32 { return binary.LittleEndian.Uint32(b[len(b)-ICRCBytes:]) }
