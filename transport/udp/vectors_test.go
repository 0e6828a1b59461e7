package udp

import (
	"encoding/json"
	"net/netip"
	"os"
	"testing"
)

// docs/protocol.md §16.1, §16.3: docs/vectors/hashes.json.
func TestAddressVectors(t *testing.T) {
	var v struct {
		UDP []struct {
			Base    string `json:"base"`
			Group   int    `json:"group"`
			Port    int    `json:"port"`
			Address string `json:"address"`
		} `json:"udp"`
	}
	b, err := os.ReadFile("../../docs/vectors/hashes.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil || len(v.UDP) == 0 {
		t.Fatalf("%d addresses, %v", len(v.UDP), err)
	}
	for _, x := range v.UDP {
		base, err := netip.ParseAddr(x.Base)
		if err != nil {
			t.Fatal(err)
		}
		tr := new(Transport)
		tr.cfg = Config{Range: netip.PrefixFrom(base, 0), Port: x.Port, Groups: x.Group + 1}
		if got := tr.GroupAddress(x.Group); got != x.Address {
			t.Errorf("group %d from %s on is %s, want %s", x.Group, x.Base, got, x.Address)
		}
	}
}
