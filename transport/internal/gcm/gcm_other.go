//go:build !amd64

package gcm

import "crypto/cipher"

const wide = false

func newVector(_ []byte, _ cipher.Block, std cipher.AEAD) cipher.AEAD { return std }
