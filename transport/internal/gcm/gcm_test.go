package gcm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"math/rand/v2"
	"testing"
)

// pair is the same key twice: of this package, and of the standard library.
func pair(t testing.TB, key []byte) (ours, std cipher.AEAD) {
	t.Helper()
	ours, err := New(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	if std, err = cipher.NewGCM(block); err != nil {
		t.Fatal(err)
	}
	return ours, std
}

// compare seals with both, opens what came, and opens what was changed.
func compare(t *testing.T, key, nonce, data, text []byte, bit int) {
	t.Helper()
	ours, std := pair(t, key)
	want := std.Seal(nil, nonce, text, data)
	const edge = 64 // around what is written
	room := bytes.Repeat([]byte{0xa5}, edge+len(want)+edge)
	got := ours.Seal(room[edge:edge], nonce, text, data)
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes with %d beside: sealed\n%x, want\n%x", len(text), len(data), got, want)
	}
	if len(got) <= cap(room)-edge && !bytes.Equal(room[edge+len(want):], bytes.Repeat([]byte{0xa5}, edge)) || !bytes.Equal(room[:edge], bytes.Repeat([]byte{0xa5}, edge)) {
		t.Fatalf("%d bytes: more is written than was sealed", len(text))
	}
	inPlace := append(append(make([]byte, 0, len(want)), text...), make([]byte, tagLen)...)
	if got := ours.Seal(inPlace[:0], nonce, inPlace[:len(text)], data); !bytes.Equal(got, want) {
		t.Fatalf("%d bytes: in place another thing is sealed", len(text))
	}
	back, err := ours.Open(inPlace[:0], nonce, inPlace, data)
	if err != nil || !bytes.Equal(back, text) {
		t.Fatalf("%d bytes: opened %x, %v, want %x", len(text), back, err, text)
	}
	apart, err := ours.Open(make([]byte, 0, len(text)), nonce, want, data)
	if err != nil || !bytes.Equal(apart, text) {
		t.Fatalf("%d bytes: opened apart %x, %v, want %x", len(text), apart, err, text)
	}
	bad := bytes.Clone(want)
	bad[bit/8%len(bad)] ^= 1 << (bit % 8)
	if got, err := ours.Open(make([]byte, 0, len(text)), nonce, bad, data); err == nil || got != nil {
		t.Fatalf("%d bytes: opened with bit %d changed: %x", len(text), bit, got)
	}
	if _, err := ours.Open(bad[:0], nonce, bad, data); err == nil || !bytes.Equal(bad[:len(text)], make([]byte, len(text))) {
		t.Fatalf("%d bytes: what does not verify stays there: %x, %v", len(text), bad, err)
	}
	if len(data) > 0 {
		other := bytes.Clone(data)
		other[bit/8%len(other)] ^= 1 << (bit % 8)
		if _, err := ours.Open(make([]byte, 0, len(text)), nonce, want, other); err == nil {
			t.Fatalf("%d bytes: opened with other data beside", len(text))
		}
	}
}

func random(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// All lengths of packets, and of what is beside, against the standard library.
func TestSame(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		compare(t, random(rnd, keyLen), random(rnd, nonceLen), random(rnd, 40), random(rnd, n), rnd.IntN(1<<16))
	}
	for n := range 300 {
		compare(t, random(rnd, keyLen), random(rnd, nonceLen), random(rnd, n), random(rnd, rnd.IntN(600)), rnd.IntN(1<<16))
	}
	for range 100 {
		compare(t, random(rnd, keyLen), random(rnd, nonceLen), random(rnd, 40), random(rnd, rnd.IntN(1<<16)), rnd.IntN(1<<20))
	}
}

// The counter of blocks is of 32 bits, and what is above it never changes: all bits set in the nonce.
func TestNonceOfOnes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	compare(t, bytes.Repeat([]byte{0xff}, keyLen), bytes.Repeat([]byte{0xff}, nonceLen), random(rnd, 40), random(rnd, 1<<16), 7)
}

// Case 16 of the algorithm's specification (McGrew and Viega, The Galois/Counter Mode of Operation, appendix B).
func TestVector(t *testing.T) {
	hex := func(s string) (b []byte) { fmt.Sscanf(s, "%x", &b); return b }
	ours, _ := pair(t, hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"))
	got := ours.Seal(make([]byte, 0, 100), hex("cafebabefacedbaddecaf888"),
		hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"),
		hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"))
	if want := hex("522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func FuzzSame(f *testing.F) {
	f.Add(make([]byte, keyLen), make([]byte, nonceLen), make([]byte, 40), make([]byte, 1416), 3)
	f.Fuzz(func(t *testing.T, key, nonce, data, text []byte, bit int) {
		if len(key) != keyLen || len(nonce) != nonceLen || bit < 0 {
			t.Skip()
		}
		compare(t, key, nonce, data, text, bit)
	})
}

// No call allocates.
func TestAllocs(t *testing.T) {
	ours, _ := pair(t, make([]byte, keyLen))
	text, room, nonce, data := make([]byte, 1416), make([]byte, 0, 1500), make([]byte, nonceLen), make([]byte, 40)
	if n := testing.AllocsPerRun(100, func() {
		sealed := ours.Seal(room, nonce, text, data)
		if _, err := ours.Open(sealed[:0], nonce, sealed, data); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What it costs, beside the standard library's: docs/performance.md.
func BenchmarkGCM(b *testing.B) {
	ours, std := pair(b, make([]byte, keyLen))
	for _, size := range []int{64, 1416, 8136, 65451} {
		for _, c := range []struct {
			who  string
			aead cipher.AEAD
		}{{"ours", ours}, {"std", std}} {
			text, nonce, data := make([]byte, size), make([]byte, nonceLen), make([]byte, 40)
			room := make([]byte, size+tagLen)
			b.Run(fmt.Sprintf("%d/seal/%s", size, c.who), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					c.aead.Seal(room[:0], nonce, text, data)
				}
			})
			sealed := c.aead.Seal(nil, nonce, text, data)
			b.Run(fmt.Sprintf("%d/open/%s", size, c.who), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					c.aead.Open(room[:0], nonce, sealed, data)
				}
			})
		}
	}
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			New(make([]byte, keyLen))
		}
	})
}
