package ud

import (
	"encoding/json"
	"net/netip"
	"os"
	"testing"
)

// docs/protocol.md §17.2, §17.3: docs/vectors/hashes.json.
func TestAddressVectors(t *testing.T) {
	var v struct {
		UD []struct {
			Base    string `json:"base"`
			Group   int    `json:"group"`
			Address string `json:"address"`
		} `json:"ud"`
	}
	b, err := os.ReadFile("../../docs/vectors/hashes.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil || len(v.UD) == 0 {
		t.Fatalf("%d addresses, %v", len(v.UD), err)
	}
	for _, x := range v.UD {
		base, err := netip.ParseAddr(x.Base)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Range: netip.PrefixFrom(base, 0), Groups: x.Group + 1}
		tr := &Transport{addrs: cfg.groupAddrs()}
		if got := tr.GroupAddress(x.Group); got != x.Address {
			t.Errorf("group %d from %s on is %s, want %s", x.Group, x.Base, got, x.Address)
		}
	}
}
