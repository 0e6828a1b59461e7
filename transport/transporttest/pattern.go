package transporttest

import "github.com/fanfaremq/fanfare/transport"

// one returns a train of one packet.
func one(b []byte) *transport.Outbound {
	return &transport.Outbound{Data: b, Stride: len(b), Count: 1, Lens: []uint16{uint16(len(b))}}
}

// train returns a train of packets with lengths lens, each with another pattern, and the expected packets.
func train(seed uint64, stride int, lens ...int) (out *transport.Outbound, want [][]byte) {
	out = &transport.Outbound{Data: make([]byte, stride*len(lens)), Stride: stride, Count: len(lens)}
	for i, n := range lens {
		p := out.Data[i*stride:][:n]
		fill(p, seed+uint64(i))
		out.Lens = append(out.Lens, uint16(n))
		want = append(want, p)
	}
	return out, want
}

// equal returns count lengths: size, but last for the last one.
func equal(count, size, last int) []int {
	lens := make([]int, count)
	for i := range lens {
		lens[i] = size
	}
	lens[count-1] = last
	return lens
}

// fill writes a pattern of which every byte depends on seed, so that a byte of another packet, or at another offset, is
// detected.
func fill(b []byte, seed uint64) {
	x := seed*0x9E3779B97F4A7C15 + 1
	for i := range b {
		if i&7 == 0 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		b[i] = byte(x >> (8 * (i & 7)))
	}
}
