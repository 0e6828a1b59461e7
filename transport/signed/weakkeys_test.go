package signed

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// For each weak key a signature made without a secret verifies for some texts, and NewTrust rejects the key. Other keys
// are accepted.
func TestWeakKeys(t *testing.T) {
	forged := make([]byte, ed25519.SignatureSize)
	forged[0] = 1 // R is the neutral element, and S is 0
	forgeable := func(key ed25519.PublicKey) bool {
		for i := range 300 {
			if ed25519.Verify(key, fmt.Append(nil, i), forged) {
				return true
			}
		}
		return false
	}
	for _, text := range weakKeys {
		for _, sign := range []byte{0, 1 << 7} {
			key, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			key[31] |= sign
			if !forgeable(key) {
				t.Errorf("%x: no text verifies", key)
			}
			if _, err := NewTrust(Grant{Topics: ">", Key: key}); err == nil || !strings.Contains(err.Error(), "can be forged") {
				t.Errorf("NewTrust with key %x: error %v, want that it can be forged", key, err)
			}
		}
	}
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if weak(public) || forgeable(public) {
		t.Errorf("%x counts as weak", public)
	}
}
