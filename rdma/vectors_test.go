package rdma

import (
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// docs/protocol §17.2, §17.6: docs/vectors/hashes.json.
func TestMGIDVectors(t *testing.T) {
	var v struct {
		UD []struct {
			Address string `json:"address"`
			PKey    uint16 `json:"pkey"`
			Scope   uint8  `json:"scope"`
			IB      string `json:"mgid_infiniband"`
			RoCE    string `json:"mgid_roce"`
			MAC     string `json:"mac_roce"`
		} `json:"ud"`
	}
	b, err := os.ReadFile("../docs/vectors/hashes.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil || len(v.UD) == 0 {
		t.Fatalf("the vectors have %d addresses, error %v, want some", len(v.UD), err)
	}
	for _, x := range v.UD {
		ip, err := netip.ParseAddr(strings.TrimPrefix(x.Address, "ud:"))
		if err != nil {
			t.Fatal(err)
		}
		ib, roce := MGIDForIB(IPAddr(ip), PortSpaceUDP, x.Scope, PKey(x.PKey)), MGIDForRoCE(IPAddr(ip), GIDTypeRoCEv2)
		if got := hex.EncodeToString(ib[:]); got != x.IB {
			t.Errorf("%s on InfiniBand: %s, want %s", x.Address, got, x.IB)
		}
		if got := hex.EncodeToString(roce[:]); got != x.RoCE {
			t.Errorf("%s on RoCE: %s, want %s", x.Address, got, x.RoCE)
		}
		mac, ok := roce.MulticastMAC()
		if got := hex.EncodeToString(mac[:]); got != x.MAC || !ok {
			t.Errorf("%s on RoCE: Ethernet address %s, want %s", x.Address, got, x.MAC)
		}
	}
}
