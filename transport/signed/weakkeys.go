package signed

import (
	"crypto/ed25519"
	"encoding/hex"
)

// weakKeys are the y coordinates of the eight points of small order (RFC 8032 §5.1.2), two of them also with the
// modulus added, which verifiers accept, too. For such a key signatures can be forged for at least one text in eight.
var weakKeys = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// weak reports whether a signature for a key can be forged without its private part.
func weak(key ed25519.PublicKey) bool {
	var y [ed25519.PublicKeySize]byte
	copy(y[:], key)
	y[len(y)-1] &^= 1 << 7 // the sign
	for _, k := range weakKeys {
		if hex.EncodeToString(y[:]) == k {
			return true
		}
	}
	return false
}
