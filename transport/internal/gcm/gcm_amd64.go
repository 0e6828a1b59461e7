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

// hash takes n bytes, 1 to most, with zeros behind them up to whole blocks, into GHASH.
//
//go:noescape
func hash(t *tables, sum *[blockLen]byte, p *byte, n int)

// crypt encrypts or decrypts n bytes, 1 or more, from src to dst with the counters behind that of
// mask, and takes what is encrypted into GHASH. Then it encrypts mask.
//
//go:noescape
func crypt(t *tables, dst, src *byte, n int, open bool, mask, sum *[blockLen]byte)

const (
	rounds = 15 // round keys
	stride = 16 // blocks that crypt takes at once
	most   = 64 // bytes that hash takes
)

// powers are H^16 to H^1, each in the order of bytes and with the shift that ghash needs, and zeros
// behind them: fewer than stride blocks begin later, and read on.
type powers [2 * stride][blockLen]byte

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
	var h, zero [blockLen]byte
	block.Encrypt(h[:], h[:])
	v.powers[stride-1] = power(h)
	for i := stride - 2; i >= 0; i-- {
		hash(v.tables, &h, &zero[0], blockLen) // times H
		v.powers[i] = power(h)
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
	tag := v.run(&out[0], plaintext, nonce, data, false)
	copy(out[n:], tag[:])
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
	tag := v.run(&out[0], ciphertext[:n], nonce, data, true)
	if subtle.ConstantTimeCompare(tag[:], ciphertext[n:]) != 1 {
		clear(out)
		return nil, errOpen
	}
	return dst[:len(dst)+n], nil
}

// run encrypts or decrypts text, and returns its tag.
func (v *vector) run(dst *byte, text, nonce, data []byte, open bool) (tag [blockLen]byte) {
	var mask, lengths [blockLen]byte
	copy(mask[:], nonce)
	mask[blockLen-1] = 1
	binary.BigEndian.PutUint64(lengths[:], uint64(len(data))*8)
	binary.BigEndian.PutUint64(lengths[8:], uint64(len(text))*8)
	hash(v.tables, &tag, &data[0], len(data))
	crypt(v.tables, dst, &text[0], len(text), open, &mask, &tag)
	hash(v.tables, &tag, &lengths[0], blockLen)
	subtle.XORBytes(tag[:], tag[:], mask[:])
	return tag
}
