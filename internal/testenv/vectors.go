package testenv

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// Vectors reads a file of docs/vectors into v.
func Vectors(t testing.TB, file string, v any) {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "docs", "vectors")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("docs/vectors is neither in this directory nor in one above")
		}
		dir = filepath.Dir(dir)
	}
	b, err := os.ReadFile(filepath.Join(dir, "docs", "vectors", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// SealedVectors is the part of docs/vectors/sealed.json that tests of capture readers use; bytes are in hexadecimal.
type SealedVectors struct {
	Keys []struct {
		ID     uint32
		Secret string
	}
	Good []struct {
		Name, Sealed, Packet string
		Index                uint32
	}
	Bad []struct {
		Name, After, Sealed, Fails string
		Index, Now                 uint32
	}
}

// ReadSealedVectors reads docs/vectors/sealed.json.
func ReadSealedVectors(t testing.TB) (v SealedVectors) {
	t.Helper()
	if Vectors(t, "sealed.json", &v); len(v.Keys) == 0 || len(v.Bad) < 50 {
		t.Fatalf("%d keys, %d bad vectors", len(v.Keys), len(v.Bad))
	}
	return v
}

// SignedVectors is the part of signed.json that tests use.
type SignedVectors struct {
	Keys []struct {
		ID      uint32
		Trusted bool
	}
	Bad []struct {
		Name, After, Signed, Fails string
		Now                        uint32
	}
}

// ReadSignedVectors reads docs/vectors/signed.json.
func ReadSignedVectors(t testing.TB) (v SignedVectors) {
	t.Helper()
	if Vectors(t, "signed.json", &v); len(v.Bad) < 40 {
		t.Fatalf("%d bad vectors", len(v.Bad))
	}
	return v
}

// GroupAddresses checks the addresses of groups of a kind of transport, "udp" or "ud", against
// docs/vectors/hashes.json. address returns the address of a group in a range that begins at base; port is 0 where the
// vector has none.
func GroupAddresses(t *testing.T, kind string, address func(base netip.Addr, port, group int) string) {
	t.Helper()
	var all map[string]json.RawMessage
	Vectors(t, "hashes.json", &all)
	var list []struct {
		Base    netip.Addr `json:"base"`
		Group   int        `json:"group"`
		Port    int        `json:"port"`
		Address string     `json:"address"`
	}
	if err := json.Unmarshal(all[kind], &list); err != nil || len(list) == 0 {
		t.Fatalf("%d addresses, %v", len(list), err)
	}
	for _, x := range list {
		if got := address(x.Base, x.Port, x.Group); got != x.Address {
			t.Errorf("group %d of the range from %s is %s, want %s", x.Group, x.Base, got, x.Address)
		}
	}
}
