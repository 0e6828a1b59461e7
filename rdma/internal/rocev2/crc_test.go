package rocev2

import (
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/fanfaremq/fanfare/rdma/internal/rocev2/frames"
)

// bitwise is the CRC-32 of Ethernet bit by bit, as its definition has it (IEEE
// 802.3, 3.2.9): what all other ways to compute it are held against.
func bitwise(crc uint32, b []byte) uint32 {
	crc = ^crc
	for _, c := range b {
		crc ^= uint32(c)
		for range 8 {
			crc = crc>>1 ^ 0xedb88320&-(crc&1)
		}
	}
	return ^crc
}

// TestUpdate holds each way to compute the CRC, and the choice between them,
// against the definition: for all lengths up to a few blocks and what follows
// them, at odd addresses, and for datagrams.
func TestUpdate(t *testing.T) {
	if got := bitwise(0, []byte("123456789")); got != 0xcbf43926 { // the check value of CRC-32/ISO-HDLC
		t.Fatalf("the definition is wrong: %#x", got)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	mem := make([]byte, MaxBytes+64)
	for i := range mem {
		mem[i] = byte(rnd.Uint32())
	}
	check := func(at, n int) {
		t.Helper()
		start, b := rnd.Uint32(), mem[at:at+n]
		want := bitwise(start, b)
		if got := updatePortably(start, b); got != want {
			t.Fatalf("portable: %d bytes from %d, start %#x: %#x, want %#x", n, at, start, got, want)
		}
		if hasFold && n >= minFold {
			if got := updateByFold(start, b); got != want {
				t.Fatalf("by folding: %d bytes from %d, start %#x: %#x, want %#x", n, at, start, got, want)
			}
		}
		if got := update(start, b); got != want {
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
		t.Log("this processor has no carry-less multiplication of 512 bits: only the portable way was tested")
	}
}

// The frames' ICRCs come out in the portable way too, which other processors use.
func TestUpdateFrames(t *testing.T) {
	for _, frame := range frames.All(t) {
		var p Path
		b, err := p.ParseIP(frame.Packet(), new(Net))
		if err != nil {
			t.Fatal(err)
		}
		prefix := p.Prefix(len(b))
		b[4] = 0xff
		if got := updatePortably(prefix, b[:len(b)-ICRCBytes]); got != Want(b) {
			t.Errorf("%s: %#x, want %#x", frame.Name, got, Want(b))
		}
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
