package gcm

import (
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/cpu"
)

// wide says that the processor has AES and carry-less multiplication of 512 bits: of Intel's from
// Ice Lake on, of AMD's from Zen 4.
var wide = cpu.X86.HasAES && cpu.X86.HasBMI2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL &&
	cpu.X86.HasAVX512VAES && cpu.X86.HasAVX512VPCLMULQDQ

// The functions of gcm_amd64.s. They read and write what they are told to, and no further.

// expand writes the round keys of AES-256 (FIPS 197, 5.2).
//
//go:noescape
func expand(keys *[rounds][blockLen]byte, key *byte)

// times multiplies h, a number of GHASH, with H.
//
//go:noescape
func times(t *tables, h *[blockLen]byte)

// crypt encrypts or decrypts n bytes, 1 or more, from src to dst, with 12 of nonce and m beside, 1 to
// most, and writes their tag.
//
//go:noescape
func crypt(t *tables, dst, src *byte, n int, open bool, nonce, data *byte, m int, tag *byte)

const (
	rounds = 15 // round keys
	stride = 16 // blocks that crypt takes at once
	most   = 64 // bytes that may be beside
)

// powers are H^17 to H^1, each in the order of bytes and with the shift that GHASH needs. The second
// begins a line of the cache: from there on 16 blocks are multiplied, and from the first on those
// that the lengths follow. Behind them are zeros: fewer than stride blocks begin later, and read on.
type powers struct {
	_     [3][blockLen]byte
	power [stride + 1][blockLen]byte
	_     [stride][blockLen]byte
}

// tables are made of one key. The assembler counts on the order. There is no pointer among them:
// the allocator then lets them begin with a line of the cache.
type tables struct {
	powers
	keys [rounds][blockLen]byte
}

// vector is AES-256-GCM of one key.
type vector struct {
	*tables
	std cipher.AEAD
}

func newVector(key []byte, block cipher.Block, std cipher.AEAD) cipher.AEAD {
	v := &vector{new(tables), std}
	expand(&v.keys, &key[0])
	var h [blockLen]byte
	block.Encrypt(h[:], h[:])
	v.power[stride] = power(h)
	for i := stride - 1; i >= 0; i-- {
		times(v.tables, &h)
		v.power[i] = power(h)
	}
	return v
}

// power turns a number of GHASH into a factor: its bytes the other way round, times x, since a
// product of numbers whose bits are the other way round comes out one bit too low.
func power(h [blockLen]byte) (p [blockLen]byte) {
	hi, lo := binary.BigEndian.Uint64(h[:]), binary.BigEndian.Uint64(h[8:])
	over := -(hi >> 63)
	hi, lo = hi<<1|lo>>63, lo<<1
	binary.LittleEndian.PutUint64(p[:], lo^over&1)
	binary.LittleEndian.PutUint64(p[8:], hi^over&0xc200000000000000)
	return p
}

func (v *vector) NonceSize() int { return nonceLen }
func (v *vector) Overhead() int  { return tagLen }

// suits reports whether the assembler does it: it knows what sealed packets have. All else
// is the standard library's, also what is wrong.
func suits(nonce, text, data []byte) bool {
	return len(nonce) == nonceLen && len(text) > 0 && len(data) > 0 && len(data) <= most
}

// Seal implements cipher.AEAD.
func (v *vector) Seal(dst, nonce, plaintext, data []byte) []byte {
	n := len(plaintext)
	if !suits(nonce, plaintext, data) || cap(dst)-len(dst) < n+tagLen {
		return v.std.Seal(dst, nonce, plaintext, data)
	}
	out := dst[len(dst) : len(dst)+n+tagLen]
	crypt(v.tables, &out[0], &plaintext[0], n, false, &nonce[0], &data[0], len(data), &out[n])
	return dst[:len(dst)+n+tagLen]
}

var errOpen = errors.New("gcm: message authentication failed")

// Open implements cipher.AEAD.
func (v *vector) Open(dst, nonce, ciphertext, data []byte) ([]byte, error) {
	n := len(ciphertext) - tagLen
	if n < 1 || !suits(nonce, ciphertext, data) || cap(dst)-len(dst) < n {
		return v.std.Open(dst, nonce, ciphertext, data)
	}
	out := dst[len(dst) : len(dst)+n]
	var tag [tagLen]byte
	crypt(v.tables, &out[0], &ciphertext[0], n, true, &nonce[0], &data[0], len(data), &tag[0])
	if subtle.ConstantTimeCompare(tag[:], ciphertext[n:]) != 1 {
		clear(out)
		return nil, errOpen
	}
	return dst[:len(dst)+n], nil
}
