package rdma

import (
	"net/netip"
	"testing"
)

func mustAddr(t *testing.T, s string) Addr {
	t.Helper()
	a, err := ParseAddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestMGIDForIB(t *testing.T) {
	for _, c := range []struct {
		addr  string
		ps    PortSpace
		scope uint8
		pkey  PKey
		want  string
	}{
		{"239.1.2.3", PortSpaceUDP, 2, 0xffff, "ff12:4001:ffff::f01:203"},
		{"239.1.2.3", PortSpaceIPoIB, 2, 0xffff, "ff12:401b:ffff::f01:203"},
		{"239.1.2.3", PortSpaceIB, 2, 0xffff, "ff12:401b:ffff::f01:203"},
		{"239.1.2.3", PortSpaceUDP, 2, 0x8001, "ff12:4001:8001::f01:203"},
		{"239.1.2.3", PortSpaceUDP, 5, 0xffff, "ff15:4001:ffff::f01:203"},
		{"224.0.0.1", PortSpaceUDP, 2, 0xffff, "ff12:4001:ffff::1"},
		{"ff15::1234", PortSpaceUDP, 2, 0xffff, "ff12:6001:ffff::1234"},
		{"ff05::1234", PortSpaceUDP, 2, 0xffff, "ff12:6001:ffff::1234"}, // the scope is lost
		{"ff15::1234", PortSpaceIPoIB, 2, 0xffff, "ff12:601b:ffff::1234"},
		{"ff3e:30:2001:db8::8000:1", PortSpaceUDP, 2, 0xffff, "ff12:6001:ffff:db8::8000:1"},
		{"ff1e:a01b:fe80::7", PortSpaceUDP, 2, 0xffff, "ff1e:a01b:fe80::7"},
		{"15.1.2.3", PortSpaceUDP, 2, 0xffff, "ff12:4001:ffff::f01:203"}, // collides with 239.1.2.3
		{"0.0.0.0", PortSpaceUDP, 2, 0xffff, "::"},
		{"0.1.2.3", PortSpaceUDP, 2, 0xffff, "::"},
		{"127.0.0.1", PortSpaceUDP, 2, 0xffff, "::"},
		{"::", PortSpaceUDP, 2, 0xffff, "::"},
		{"::1", PortSpaceUDP, 2, 0xffff, "::"},
	} {
		if got := MGIDForIB(mustAddr(t, c.addr), c.ps, c.scope, c.pkey).String(); got != c.want {
			t.Errorf("%s %v scope %d %v: %s, want %s", c.addr, c.ps, c.scope, c.pkey, got, c.want)
		}
	}
	g := GID{0: 0xff, 15: 9}
	if got := MGIDForIB(IBAddr(g), PortSpaceUDP, 2, 0xffff); got != g {
		t.Errorf("MGID of an AF_IB address is %v, want %v", got, g)
	}
	if got := MGIDForIB(Addr{}, PortSpaceUDP, 2, 0xffff); !got.IsZero() {
		t.Errorf("MGID of no address is %v, want zeros", got)
	}
}

func TestMGIDForRoCE(t *testing.T) {
	for _, c := range []struct {
		addr string
		typ  GIDType
		want string
	}{
		{"239.1.2.3", GIDTypeRoCEv2, "::ffff:239.1.2.3"},
		{"239.1.2.3", GIDTypeRoCEv1, "ff0e::ffff:ef01:203"},
		{"10.1.2.3", GIDTypeRoCEv2, "::ffff:10.1.2.3"},
		{"ff15::1234", GIDTypeRoCEv1, "ff15::1234"},
		{"127.0.0.1", GIDTypeRoCEv2, "::"},
	} {
		if got := MGIDForRoCE(mustAddr(t, c.addr), c.typ).String(); got != c.want {
			t.Errorf("group %s of %v has MGID %s, want %s", c.addr, c.typ, got, c.want)
		}
	}
}

func TestMulticastMAC(t *testing.T) {
	for addr, want := range map[string][6]byte{
		"239.1.2.3":   {0x01, 0x00, 0x5e, 0x01, 0x02, 0x03},
		"239.129.2.3": {0x01, 0x00, 0x5e, 0x01, 0x02, 0x03},
		"ff15::1234":  {0x33, 0x33, 0, 0, 0x12, 0x34},
	} {
		mac, ok := GIDFromIP(netip.MustParseAddr(addr)).MulticastMAC()
		if !ok || mac != want {
			t.Errorf("group %s has MAC %x, %v, want %x", addr, mac, ok, want)
		}
	}
	for _, addr := range []string{"10.1.2.3", "fe80::1", "::"} {
		if mac, ok := GIDFromIP(netip.MustParseAddr(addr)).MulticastMAC(); ok {
			t.Errorf("%s has multicast MAC %x, want none", addr, mac)
		}
	}
}
