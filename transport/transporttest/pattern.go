package transporttest

import "github.com/fanfaremq/fanfare/transport"

// one is a train of one packet.
func one(b []byte) *transport.Outbound {
	return &transport.Outbound{Data: b, Stride: len(b), Count: 1, Lens: []uint16{uint16(len(b))}}
}

// train is a train of packets with these lengths, each with its own pattern, and the expected packets.
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

// equal is count times size, the last one being last bytes long.
func equal(count, size, last int) []int {
	lens := make([]int, count)
	for i := range lens {
		lens[i] = size
	}
	lens[count-1] = last
	return lens
}

// fill writes a pattern that depends on seed at every byte, so that a byte of
// another packet, or at another place, shows.
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
