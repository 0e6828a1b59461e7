package udp

import (
	"net/netip"
	"testing"
)

func TestGroupAddr(t *testing.T) {
	for _, c := range []struct {
		base string
		i    int
		want string
	}{
		{"239.20.0.0", 0, "239.20.0.0"},
		{"239.20.0.0", 256, "239.20.1.0"},
		{"239.20.255.255", 1, "239.21.0.0"},
		{"ff15::20:0", 5, "ff15::20:5"},
		{"ff15::ffff:ffff:ffff:ffff", 1, "ff15:0:0:1::"},
	} {
		if got := groupAddr(netip.MustParseAddr(c.base), c.i); got != netip.MustParseAddr(c.want) {
			t.Errorf("group address %s + %d = %v, want %s", c.base, c.i, got, c.want)
		}
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		prefix, last string
		size         int
	}{
		{"239.20.0.0/16", "239.20.255.255", 65536},
		{"239.20.0.5/16", "239.20.255.255", 65531},
		{"239.20.0.5/32", "239.20.0.5", 1},
		{"239.20.0.8/29", "239.20.0.15", 8},
		{"ff15::20:0/112", "ff15::20:ffff", 65536},
		{"ff15::/16", "ff15:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 1 << 30},
		{"ff15::/64", "ff15::ffff:ffff:ffff:ffff", 1 << 30},
		{"ff15::1/128", "ff15::1", 1},
	} {
		p := netip.MustParsePrefix(c.prefix)
		last := lastAddr(p)
		if last != netip.MustParseAddr(c.last) {
			t.Errorf("last of %s is %v, want %s", c.prefix, last, c.last)
		}
		if n := rangeSize(p.Addr(), last); n != c.size {
			t.Errorf("size of %s is %d, want %d", c.prefix, n, c.size)
		}
	}
}

// Packets fill an Ethernet frame, or the MTU where that is less, unless a size is configured. docs/protocol §16.6.
func TestPacketSizeFitsMTU(t *testing.T) {
	for _, c := range []struct {
		groups     string
		configured int
		mtu, want  int
	}{
		{"239.20.0.0/16", 0, 1500, 1472},
		{"239.20.0.0/16", 0, 9000, 1472},
		{"239.20.0.0/16", 0, 65536, 1472},
		{"239.20.0.0/16", 0, 1499, 1471},
		{"239.20.0.0/16", 0, 1280, 1252},
		{"ff15::20:0/112", 0, 1520, 1472},
		{"ff15::20:0/112", 0, 1500, 1452},
		{"ff15::20:0/112", 0, 1280, 1232},
		{"239.20.0.0/16", 8000, 1500, 8000},
		{"239.20.0.0/16", 600, 9000, 600},
	} {
		cfg := Config{Range: netip.MustParsePrefix(c.groups), PacketSize: c.configured}
		if got := cfg.packetSize(c.mtu); got != c.want {
			t.Errorf("%s, configured %d, MTU %d: %d bytes, want %d", c.groups, c.configured, c.mtu, got, c.want)
		}
	}
}
