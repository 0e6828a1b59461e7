package netif

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

// Loopback is found by its name and by each address that it has, and by others of its
// network; what is none is an error that says what to do.
func TestFind(t *testing.T) {
	lo, err := net.InterfaceByName(Loopback())
	if err != nil {
		t.Fatal(err) // every system has one, and all tests of sockets need it
	}
	addrs, err := Addrs(lo)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{lo.Name}
	for _, a := range addrs {
		if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
			t.Errorf("loopback has the address %v", a)
		}
		if a.IsLoopback() {
			names = append(names, a.String())
		}
		if a == netip.MustParseAddr("127.0.0.1") {
			names = append(names, "127.3.2.1", "::ffff:127.0.0.1")
		}
	}
	for _, name := range names {
		if got, err := Find(name); err != nil || got.Name != lo.Name {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"no-such-interface": "'ip link' lists them", "192.0.2.77": "'ip address' lists them"} {
		if got, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
