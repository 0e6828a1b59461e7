package cli

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// doctor reports the interfaces and routes that udp:// uses, and its advice names existing
// interfaces, for any configuration of the host.
func TestDoctorAgreesWithUDP(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	add := func(name, addr string) {
		testenv.AddVeth(t, name, name+"-end", 0)
		if addr != "" {
			testenv.AddAddr(t, name, addr)
		}
		testenv.LinkUp(t, name)
		testenv.LinkUp(t, name+"-end")
	}
	for _, c := range []struct {
		name     string
		setup    func()
		uses     string
		level    doctor.Level
		wantText string // of udp: // about udp:// without iface=, or that only loopback is usable
		fix      string // prefix of the fix
	}{
		{"loopback only", func() {}, "lo", doctor.Warn, "only loopback is up", "ip -br address"},
		{"an interface without address, without route", func() {
			testenv.AddVeth(t, "one", "one-end", 0)
		}, "lo", doctor.Warn, "only loopback is up", "ip link set one"},
		{"one, without route", func() {
			testenv.LinkUp(t, "one-end")
			testenv.LinkUp(t, "one")
			testenv.AddAddr(t, "one", "10.77.0.1/24")
		}, "one", doctor.Info, "uses one (10.77.0.1), the first interface that is up", "ip route add 224.0.0.0/4 dev one"},
		{"two, without route", func() { add("two", "10.78.0.1/24") }, "one", doctor.Warn, "uses one (10.77.0.1), the first that is up", "ip route add 224.0.0.0/4 dev one"},
		{"a route to the second", func() { testenv.RouteMulticast(t, "two") }, "two", doctor.OK, "uses two (10.78.0.1), the interface of the route to multicast groups", ""},
		{"a route to one without its flag", func() { testenv.LinkMulticast(t, "two", false) }, "one", doctor.Warn,
			"the route to multicast groups leads to two, which cannot be used for multicast: udp:// without iface= uses one (10.77.0.1)", "ip route replace 224.0.0.0/4 dev one"},
		{"a route to one that has the address of another", func() {
			testenv.LinkMulticast(t, "two", true)
			testenv.AddAddr(t, "one", "10.78.0.1/32") // the route does not use the first interface with this address
		}, "two", doctor.OK, "uses two (10.78.0.1), the interface of the route to multicast groups", ""},
		{"a route to loopback", func() {
			testenv.LinkDown(t, "two") // this removes the route
			testenv.RouteMulticast(t, "lo")
		}, "lo", doctor.Warn, "uses loopback (lo), because the route to multicast groups leads there", "ip route get"},
	} {
		c.setup()
		tr, err := udp.Open(udp.Config{Groups: 1})
		if err != nil {
			t.Fatalf("%s: the transport cannot be opened: %v", c.name, err)
		}
		if tr.Interface() != c.uses {
			t.Errorf("%s: udp:// uses %s, want %s", c.name, tr.Interface(), c.uses)
		}
		finish(tr)
		r := start(t, nil, "doctor", "-notest", "-json")
		<-r.done
		found := false
		for _, line := range strings.Split(strings.TrimSpace(r.stdout.String()), "\n") {
			var f doctorFinding
			var level struct{ Level string }
			if json.Unmarshal([]byte(line), &level) != nil || strings.Contains(line, `"summary"`) {
				continue
			}
			json.Unmarshal([]byte(line), &f) // all but the level
			if strings.Contains(f.Text, c.wantText) {
				found = true
				if level.Level != c.level.String() || !strings.HasPrefix(f.Fix, c.fix) || c.fix == "" && f.Fix != "" {
					t.Errorf("%s: %s: %s, fix %q; want %v, fix %q", c.name, level.Level, f.Text, f.Fix, c.level, c.fix)
				}
			}
			checkAdvisedInterfaces(t, f.Fix)
		}
		if !found {
			t.Errorf("%s: no finding with %q:\n%s", c.name, c.wantText, r.stdout.String())
		}
	}
}

// checkAdvisedInterfaces checks that the interfaces in a suggested command exist.
func checkAdvisedInterfaces(t *testing.T, fix string) {
	t.Helper()
	words := strings.Fields(fix)
	for i, w := range words[:max(0, len(words)-1)] {
		name := words[i+1]
		if w == "dev" || w == "netdev" || w == "set" && i > 0 && words[i-1] == "link" {
			if _, err := net.InterfaceByName(name); err != nil {
				t.Errorf("%q: interface %s does not exist", fix, name)
			}
		}
	}
}
