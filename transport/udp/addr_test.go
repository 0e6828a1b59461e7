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
			t.Errorf("%s + %d = %v, want %s", c.base, c.i, got, c.want)
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
