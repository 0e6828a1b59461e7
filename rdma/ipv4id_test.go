package rdma

import (
	"net/netip"
	"testing"
)

// Setting the identification afterwards gives the same bytes as writing it with the header.
func TestSetIPv4ID(t *testing.T) {
	for i := range 1 << 16 {
		h := Header{
			Src: GIDFromIP(netip.AddrFrom4([4]byte{10, byte(i >> 3), 3, byte(i)})), Dst: GIDFromIP(netip.AddrFrom4([4]byte{239, 1, byte(i >> 5), 3})),
			TrafficClass: uint8(i >> 7), HopLimit: uint8(i >> 2), PayloadLength: uint16(i * 7),
		}
		var set, want [GRHBytes]byte
		PutGRH(set[:], LinkLayerEthernet, &h, 0)
		SetIPv4ID(set[:], uint16(i))
		PutGRH(want[:], LinkLayerEthernet, &h, uint16(i))
		if set != want {
			t.Fatalf("identification %d: % x, want % x", i, set, want)
		}
		if got, ok := ParseGRH(LinkLayerEthernet, set[:]); !ok || got.Src != h.Src || got.Dst != h.Dst {
			t.Fatalf("identification %d: parsed as %+v, %v, want from %v to %v", i, got, ok, h.Src, h.Dst)
		}
	}
}
