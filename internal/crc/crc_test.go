package crc

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"testing"
)

// maxBytes exceeds the size of all datagrams.
const maxBytes = 4400

var polys = []struct {
	name  string
	poly  *Poly
	bits  uint32
	check uint32 // of "123456789"
}{
	{"IEEE", IEEE, 0xedb88320, 0xcbf43926},
	{"Castagnoli", Castagnoli, 0x82f63b78, 0xe3069283},
}

// bitwise computes a CRC bit by bit, by its definition (IEEE 802.3, 3.2.9): the reference for all other
// implementations.
func bitwise(polynomial, crc uint32, b []byte) uint32 {
	crc = ^crc
	for _, c := range b {
		crc ^= uint32(c)
		for range 8 {
			crc = crc>>1 ^ polynomial&-(crc&1)
		}
	}
	return ^crc
}

// TestUpdate compares each implementation, and the selection between them, with the definition: for all lengths up to a
// few blocks and the rest after them, at odd addresses, and for datagrams.
func TestUpdate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	mem := make([]byte, maxBytes+64)
	for i := range mem {
		mem[i] = byte(rnd.Uint32())
	}
	for _, c := range polys {
		t.Run(c.name, func(t *testing.T) {
			if got := bitwise(c.bits, 0, []byte("123456789")); got != c.check {
				t.Fatalf("the reference has check value %#x, want %#x", got, c.check)
			}
			check := func(at, n int) {
				t.Helper()
				start, b := rnd.Uint32(), mem[at:at+n]
				want := bitwise(c.bits, start, b)
				if got := c.poly.portably(start, b); got != want {
					t.Fatalf("portable: %d bytes from %d, start %#x: %#x, want %#x", n, at, start, got, want)
				}
				if hasFold && n >= minFold {
					if got := c.poly.byFold(start, b); got != want {
						t.Fatalf("by folding: %d bytes from %d, start %#x: %#x, want %#x", n, at, start, got, want)
					}
				}
				if got := c.poly.Update(start, b); got != want {
					t.Fatalf("%d bytes from %d, start %#x: %#x, want %#x", n, at, start, got, want)
				}
			}
			for n := range 1100 {
				check(n%61, n)
			}
			for n := 1100; n <= maxBytes; n += 3 {
				check(n%64, n)
			}
		})
	}
	if !hasFold {
		t.Log("this processor has no carry-less multiplication of 512 bits: only the portable implementation was tested")
	}
}

// TestWord compares the tables for four bytes with the definition.
func TestWord(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, c := range polys {
		for range 1000 {
			start, w := rnd.Uint32(), rnd.Uint32()
			want := bitwise(c.bits, start, binary.LittleEndian.AppendUint32(nil, w))
			if got := c.poly.Word(start, w); got != want {
				t.Fatalf("%s: %#x after %#x: %#x, want %#x", c.name, w, start, got, want)
			}
		}
	}
}

// TestPower compares multiplication modulo the polynomial with hash/crc32: each following zero byte multiplies a CRC's
// register by x^8.
func TestPower(t *testing.T) {
	for _, c := range polys {
		table := c.poly.word[0]
		v := uint32(0x12345678)
		for n := range 40 {
			want := v
			for range n {
				want = want>>8 ^ table[want&0xff]
			}
			if got := Mul(c.bits, v, Power(c.bits, 1<<(31-8), n)); got != want {
				t.Fatalf("%s: Mul by x^(8*%d) = %#x, want %#x", c.name, n, got, want)
			}
		}
	}
}

func TestNoAllocation(t *testing.T) {
	mem := make([]byte, 2048)
	for _, n := range []int{4, 64, 1088, 2048} {
		for _, c := range polys {
			if a := testing.AllocsPerRun(100, func() { c.poly.Update(0, mem[:n]) }); a != 0 {
				t.Errorf("%s of %d bytes: %v allocations, want none", c.name, n, a)
			}
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, c := range polys {
		for _, size := range []int{256, 1088, 2072} {
			mem := make([]byte, size)
			b.Run(c.name+"/own/"+strconv.Itoa(size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					c.poly.Update(0, mem)
				}
			})
			b.Run(c.name+"/crc32/"+strconv.Itoa(size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					crc32.Update(0, c.poly.word[0], mem)
				}
			})
		}
	}
}
