package rocev2

import (
	"encoding/binary"
	"hash/crc32"
)

// update is crc32.Update with the IEEE polynomial. It is most of what a datagram
// costs in this package, and hash/crc32 uses instructions of 128 bits.
func update(crc uint32, b []byte) uint32 {
	if hasFold && len(b) >= minFold {
		return updateByFold(crc, b)
	}
	return updatePortably(crc, b)
}

func updatePortably(crc uint32, b []byte) uint32 {
	return crc32.Update(crc, crc32.IEEETable, b)
}

// updateByFold wants hasFold, and minFold bytes.
func updateByFold(crc uint32, b []byte) uint32 {
	n := len(b) &^ 15
	crc = ^fold(&foldBy, ^crc, b[:n])
	b = b[n:]
	// hash/crc32 takes the rest byte by byte; of a datagram it is words.
	for ; len(b) >= 4; b = b[4:] {
		x := ^crc ^ binary.LittleEndian.Uint32(b)
		crc = ^(word[0][x>>24] ^ word[1][x>>16&0xff] ^ word[2][x>>8&0xff] ^ word[3][x&0xff])
	}
	if len(b) == 0 {
		return crc
	}
	return updatePortably(crc, b)
}

// word[i] is the table for a byte that i bytes follow within a word.
var word [4]crc32.Table

// foldBy are what fold multiplies by: x^(n+32) and x^(n-32) modulo the
// polynomial, for n bits forward, as carry-less multiplication of reversed bits
// needs them (V. Gopal and others, "Fast CRC Computation for Generic Polynomials
// Using PCLMULQDQ Instruction", Intel 2009).
var foldBy [10]uint64

func init() {
	word[0] = *crc32.IEEETable
	for i := range word[0] {
		for j := 1; j < len(word); j++ {
			v := word[j-1][i]
			word[j][i] = v>>8 ^ word[0][v&0xff]
		}
	}
	const x = 1 << 30
	k := func(n int) uint64 { return uint64(power(x, n)) << 1 }
	foldBy = [...]uint64{
		k(2048 + 32), k(2048 - 32), // 256 bytes
		k(512 + 32), k(512 - 32), // 64 bytes
		k(128 + 32), k(128 - 32), // 16 bytes
		k(64), 0, // a word, at the end
		uint64(bitsReversed33(quotient())), polynomialBits, // Barrett's: x^64 divided by the polynomial, and it
	}
}

// polynomialBits is the polynomial with all 33 bits, reversed.
const polynomialBits = uint64(polynomial)<<1 | 1

// quotient is x^64 divided by the polynomial, bit i for x^i.
func quotient() uint64 {
	p := bitsReversed33(polynomialBits)
	var q uint64
	// Long division: rest is what is left of x^64 above bit i.
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

func bitsReversed33(v uint64) uint64 {
	var r uint64
	for i := range 33 {
		r |= v >> i & 1 << (32 - i)
	}
	return r
}
