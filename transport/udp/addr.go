package udp

import (
	"encoding/binary"
	"net/netip"
)

// groupAddr is base plus i. The caller must have checked the range.
func groupAddr(base netip.Addr, i int) netip.Addr {
	b := base.As16()
	low := binary.BigEndian.Uint64(b[8:])
	sum := low + uint64(i)
	if sum < low {
		binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+1)
	}
	binary.BigEndian.PutUint64(b[8:], sum)
	a := netip.AddrFrom16(b)
	if base.Is4() {
		a = a.Unmap()
	}
	return a
}

// lastAddr is the last address of the prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	a := p.Addr()
	b := a.AsSlice()
	for bit := p.Bits(); bit < a.BitLen(); bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// rangeSize is the number of addresses from base to last, or 1<<30 if it is more than that.
func rangeSize(base, last netip.Addr) int {
	const many = 1 << 30
	a, b := base.As16(), last.As16()
	if binary.BigEndian.Uint64(a[:8]) != binary.BigEndian.Uint64(b[:8]) {
		return many
	}
	n := binary.BigEndian.Uint64(b[8:]) - binary.BigEndian.Uint64(a[8:])
	if n >= many {
		return many
	}
	return int(n) + 1
}
