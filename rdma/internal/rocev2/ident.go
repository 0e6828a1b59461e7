package rocev2

import (
	"hash/crc32"
	"math/bits"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/crc"
)

// A CRC is affine: flipping a bit of the input flips the same bits of the result, whatever others are; each byte that
// follows multiplies them by x^8. Polynomials over GF(2) are represented as in crc32: bit 31 is x^0, bit 0 is x^31.

// identBits is the number of unknown bits: 16 of the IPv4 identification, and DF.
const identBits = 17

var (
	// flip[i] has the bits of the CRC at the end of the UDP header that bit i of the identification flips; flip[16] is for
	// DF.
	flip [identBits]uint32
	// idFlip has the same for whole identifications of the first packets of a train.
	idFlip [64]uint32
	// rows is flip in echelon form: each row has a highest bit that no other has, and the elements of flip in its sum.
	rows [identBits]row
	// unshift[n/4] is x^(-8n), 0 if not computed yet.
	unshift [MaxBytes/4 + 1]atomic.Uint32
)

type row struct {
	sum  uint32
	top  uint32 // its highest bit
	made uint32 // bit i: flip[i] is part of the sum
}

func init() {
	// The byte with the flags is followed by the rest of the IPv4 header and by the UDP header.
	const after = ipv4Bytes - 6 - 1 + udpBytes
	step := power(x8, after) // from the byte with DF to the end
	one := func(bit uint) uint32 { return mul(crc32.IEEETable[1<<bit], step) }
	flip[16] = one(6)
	for i := range uint(8) {
		flip[i] = mul(one(i), x8)            // low byte of the identification
		flip[i+8] = mul(mul(one(i), x8), x8) // high byte
	}
	for id := range idFlip {
		for i := range 6 {
			if id>>i&1 != 0 {
				idFlip[id] ^= flip[i]
			}
		}
	}
	for i := range rows {
		r := row{sum: flip[i], made: 1 << i}
		for j := range i {
			if r.sum&rows[j].top != 0 {
				r.sum ^= rows[j].sum
				r.made ^= rows[j].made
			}
		}
		r.top = 1 << (bits.Len32(r.sum) - 1)
		for j := range i {
			if rows[j].sum&r.top != 0 {
				rows[j].sum ^= r.sum
				rows[j].made ^= r.made
			}
		}
		rows[i] = r
	}
}

const (
	polynomial = crc32.IEEE
	x8         = 1 << (31 - 8)
)

func mul(a, b uint32) uint32       { return crc.Mul(polynomial, a, b) }
func power(a uint32, n int) uint32 { return crc.Power(polynomial, a, n) }

// xMinus8 is x^-8: x is invertible, because the polynomial's constant term is 1.
var xMinus8 = power(polynomial<<1&(1<<32-1)|1, 8)

// WithID returns the Prefix for identification id, from an IPv4 Prefix for identification 0.
func WithID(prefix uint32, id uint16) uint32 {
	if int(id) < len(idFlip) {
		return prefix ^ idFlip[id]
	}
	for i := range 16 {
		if id>>i&1 != 0 {
			prefix ^= flip[i]
		}
	}
	return prefix
}

// Recover computes the IPv4 identification and DF of a datagram, which a UDP socket does not report, from its ICRC. sum
// is the datagram's Sum for identification 0 with DF, want the ICRC in the datagram, size its length from the BTH to
// the ICRC. There is at most one solution. If there is none, ok is false and the datagram is damaged.
//
// Of the 2^32 differences between sum and want, 2^17 have a solution: a damaged datagram passes with a probability of
// 2^-15. If the caller knows the identification and compares, the probability is 2^-32.
func Recover(sum, want uint32, size int) (id uint16, df, ok bool) {
	n := (size - ICRCBytes) / 4
	u := unshift[n].Load()
	if u == 0 {
		u = power(xMinus8, 4*n)
		unshift[n].Store(u)
	}
	// The difference at the end of the UDP header.
	d := mul(sum^want, u)
	made := uint32(0)
	for i := range rows {
		if d&rows[i].top != 0 {
			d ^= rows[i].sum
			made ^= rows[i].made
		}
	}
	if d != 0 {
		return 0, false, false
	}
	return uint16(made), made>>16 == 0, true
}
