package crc

// Mul returns a*b modulo the polynomial. Bit 31 is x^0, bit 0 is x^31, as in hash/crc32.
func Mul(polynomial, a, b uint32) uint32 {
	var p uint32
	for ; a != 0; a <<= 1 {
		p ^= b & uint32(int32(a)>>31)
		b = b>>1 ^ polynomial&-(b&1)
	}
	return p
}

// Power returns a^n modulo the polynomial.
func Power(polynomial, a uint32, n int) uint32 {
	p := uint32(1 << 31)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = Mul(polynomial, p, a)
		}
		a = Mul(polynomial, a, a)
	}
	return p
}
