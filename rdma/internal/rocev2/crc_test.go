package rocev2

import (
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestUpdate compares update with hash/crc32 for all lengths up to a block and
// what follows it, at odd addresses, and for datagrams.
func TestUpdate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	mem := make([]byte, MaxBytes+64)
	for i := range mem {
		mem[i] = byte(rnd.Uint32())
	}
	check := func(at, n int) {
		t.Helper()
		start := rnd.Uint32()
		if got, want := update(start, mem[at:at+n]), crc32.Update(start, crc32.IEEETable, mem[at:at+n]); got != want {
			t.Fatalf("%d bytes from %d, start %#x: %#x, want %#x", n, at, start, got, want)
		}
	}
	for n := range 1100 {
		check(n%61, n)
	}
	for n := 1100; n <= MaxBytes; n += 4 {
		check(n%64, n)
	}
	if !hasFold {
		t.Log("without carry-less multiplication of 512 bits: only hash/crc32 was compared with itself")
	}
}

func BenchmarkSum(b *testing.B) {
	for _, size := range []int{256, 1088, 2072} {
		mem := make([]byte, size)
		b.Run("own/"+strconv.Itoa(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				update(0, mem)
			}
		})
		b.Run("crc32/"+strconv.Itoa(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				crc32.Update(0, crc32.IEEETable, mem)
			}
		})
	}
}
