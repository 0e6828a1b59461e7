// Package gcm is AES-256-GCM (NIST SP 800-38D) of the standard library, or the same on processors
// that have its instructions for registers of 512 bits, in a third to six tenths of the time
// (docs/decisions/70-aes-gcm.md).
package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"
)

const (
	blockLen = aes.BlockSize
	nonceLen = 12
	tagLen   = 16
)

// New returns AES-256-GCM with a key of 32 bytes, nonces of 12, and tags of 16. What is sealed or
// opened may lie where the result goes, or clear of it. The error says what of the key is wrong.
func New(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	std, err := cipher.NewGCM(block)
	if err != nil || !wide || len(key) != keyLen || fips140.Enabled() { // who asks for a validated module gets it
		return std, err
	}
	return newVector(key, block, std), nil
}

const keyLen = 32
