package gcm

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// beforeNothing returns n bytes behind which no memory is.
func beforeNothing(t *testing.T, n int) []byte {
	t.Helper()
	page := unix.Getpagesize()
	all := (n + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, all+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	if err := unix.Mprotect(mem[all:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return mem[all-n : all : all]
}

// Nothing is read or written beyond what is sealed, or opened.
func TestBounds(t *testing.T) {
	if !wide {
		t.Log("this processor has no wide instructions: the standard library is tried")
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	key, nonce := random(rnd, keyLen), random(rnd, nonceLen)
	ours, std := pair(t, key)
	const most = 1600
	text, sealed := beforeNothing(t, most), beforeNothing(t, most+tagLen)
	for n := 1; n <= most; n++ {
		data, plain := random(rnd, 40), text[most-n:]
		copy(plain, random(rnd, n))
		out := sealed[most-n:]
		if ours.Seal(out[:0], nonce, plain, data); !bytes.Equal(out, std.Seal(nil, nonce, plain, data)) {
			t.Fatalf("%d bytes: another thing is sealed", n)
		}
		want := bytes.Clone(plain)
		clear(plain)
		if got, err := ours.Open(plain[:0], nonce, out, data); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: opened %x, %v, want %x", n, got, err, want)
		}
	}
}
