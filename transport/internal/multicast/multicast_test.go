package multicast

import (
	"net"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags net.Flags
		ok    bool
	}{
		{"eth0", net.FlagUp | net.FlagMulticast, true},
		{"lo", net.FlagUp | net.FlagLoopback, true}, // as on Linux
		{"lo0", net.FlagUp | net.FlagLoopback | net.FlagMulticast, true},
		{"wg0", net.FlagUp | net.FlagPointToPoint, false},
		{"dummy0", net.FlagUp | net.FlagBroadcast, false},
	} {
		err := Check(&net.Interface{Name: c.name, Flags: c.flags}, true)
		if c.ok != (err == nil) {
			t.Errorf("%s: error %v, want none: %v", c.name, err, c.ok)
		}
		if err != nil && (!strings.Contains(err.Error(), "interface "+c.name+" does not support multicast") || !strings.Contains(err.Error(), "ip link set "+c.name+" multicast on")) {
			t.Errorf("%s: error %v, want that it does not support multicast, and the command that changes it", c.name, err)
		}
	}
}

func TestInstead(t *testing.T) {
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for i := range all { // so that every interface of this host is up and supports multicast
		if s := instead(all[i:i+1], true); strings.Contains(s, all[i].Name) && (all[i].Flags&net.FlagUp == 0 || !Can(&all[i])) {
			t.Errorf("interface %v that is down or lacks multicast is advised: %s", all[i], s)
		}
	}
	if s := instead(nil, true); s != "no other interface here does" {
		t.Errorf("advice without interfaces: %q, want \"no other interface here does\"", s)
	}
}
