// Package crc computes the CRCs of packets: CRC-32 (the ICRC of RoCEv2, IBTA A17) and CRC-32C (the checksum of the
// project's own packets), with the processor's widest carry-less multiplication. The results are the same as those of
// hash/crc32, which uses instructions of at most 128 bits.
package crc

import "hash/crc32"

// Poly is a polynomial of a 32-bit CRC.
type Poly struct {
	// word[i] is the table for a byte that is followed by i bytes of a word; word[0] is the table of hash/crc32.
	word [4]*crc32.Table
	by   constants
}

var (
	// IEEE is CRC-32 of IEEE 802.3, which is used for the ICRC.
	IEEE = newPoly(crc32.IEEE, crc32.IEEETable)
	// Castagnoli is CRC-32C (RFC 3720, section 12.1).
	Castagnoli = newPoly(crc32.Castagnoli, crc32.MakeTable(crc32.Castagnoli))
)

// Update adds b to crc, as crc32.Update does.
func (p *Poly) Update(crc uint32, b []byte) uint32 {
	if hasFold && len(b) >= minFold {
		return p.byFold(crc, b)
	}
	return p.portably(crc, b)
}

func (p *Poly) portably(crc uint32, b []byte) uint32 { return crc32.Update(crc, p.word[0], b) }

// byFold requires hasFold and minFold bytes.
func (p *Poly) byFold(crc uint32, b []byte) uint32 {
	first := uint64(len(b)-1)&63 + 1
	return ^fold(&p.by, ^crc, uint32(uint64(^crc)>>(8*first)), first, b)
}

// Word adds four bytes to crc, in little-endian order. It costs less than Update for so few.
func (p *Poly) Word(crc, w uint32) uint32 {
	x := ^crc ^ w
	return ^(p.word[0][x>>24] ^ p.word[1][x>>16&0xff] ^ p.word[2][x>>8&0xff] ^ p.word[3][x&0xff])
}

// constants has the factors of fold. Moving n bits forward needs x^(n+32) and x^(n-32) modulo the polynomial, for
// carry-less multiplication of reversed bits (V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction", Intel 2009).
type constants struct {
	by256, by192, by128, by64 [2]uint64    // bytes forward
	parts                     [4][2]uint64 // by 48, 32, 16 and none, which is zero
	byWord                    [2]uint64    // x^64, and zero
	barrett                   [2]uint64    // x^64 divided by the polynomial, and the polynomial
}

// newPoly makes the tables for the algorithms above. Polynomials over GF(2) are represented as in crc32: bit 31 is x^0,
// bit 0 is x^31.
func newPoly(polynomial uint32, table *crc32.Table) *Poly {
	p := &Poly{word: [4]*crc32.Table{table, new(crc32.Table), new(crc32.Table), new(crc32.Table)}}
	for i := range table {
		for j := 1; j < len(p.word); j++ {
			v := p.word[j-1][i]
			p.word[j][i] = v>>8 ^ table[v&0xff]
		}
	}
	const x = 1 << 30
	k := func(bits int) uint64 { return uint64(Power(polynomial, x, bits)) << 1 }
	forward := func(bytes int) [2]uint64 { return [2]uint64{k(8*bytes + 32), k(8*bytes - 32)} }
	whole := uint64(polynomial)<<1 | 1 // with all 33 bits, reversed
	p.by = constants{
		by256: forward(256), by192: forward(192), by128: forward(128), by64: forward(64),
		parts:   [4][2]uint64{forward(48), forward(32), forward(16)},
		byWord:  [2]uint64{k(64)},
		barrett: [2]uint64{reversed33(quotient(reversed33(whole))), whole},
	}
	return p
}

// quotient returns x^64 divided by p; bit i is x^i.
func quotient(p uint64) uint64 {
	var q uint64
	// Long division: rest is the remainder of x^64 above bit i.
	rest := uint64(0)
	for i := 64; i >= 0; i-- {
		rest <<= 1
		if i == 64 {
			rest |= 1
		}
		q <<= 1
		if rest>>32&1 != 0 {
			rest ^= p
			q |= 1
		}
	}
	return q
}

func reversed33(v uint64) uint64 {
	var r uint64
	for i := range 33 {
		r |= v >> i & 1 << (32 - i)
	}
	return r
}
