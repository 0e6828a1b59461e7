package fabricurl

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
)

// Errors of a URL are distinguished from missing devices of a host.
func TestOpenHostErrors(t *testing.T) {
	for _, c := range []struct {
		url, says string
		fault     bool // the URL has the error
	}{
		{"", "no RDMA provider", true},
		{"%", "invalid URL escape", true},
		{"udp://239.1.2.3", "use rdma://, roce://, sim://", true},
		{"sim://?rq=16", `sim://?rq=16: sim: unknown option "rq"`, true}, // an endpoint's
		{"sim://?flavor=roce&mlids=3", "RoCE does not have", true},
		{"sim://:80", "sim://DEVICE", true},
		{"sim://user@", "sim://DEVICE", true},
		{"sim:///path", "sim://DEVICE", true},
		{"sim:opaque", "sim://DEVICE", true},
		{"sim://?loss=0.1;x", "semicolon", true},
		{"rdma://mlx5_0?check=full", `unknown option "check"`, true},
		{"roce://lo?check=some", "best, full or udp", true},
		{"roce://no-such-interface", "no network interface is called", false},
		{"roce://192.0.2.77", "no network interface has address", false},
	} {
		if runtime.GOOS != "linux" && strings.HasPrefix(c.url, "roce") && !c.fault {
			continue
		}
		h, err := OpenHost(c.url)
		var ue *Error
		if h != nil || err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, &ue) != c.fault {
			t.Errorf("%q: %v (URL's fault: %v), want %q", c.url, err, errors.As(err, &ue), c.says)
		}
	}
}

// A simulated subnet has two hosts, which reach each other; Close ends it.
func TestOpenSim(t *testing.T) {
	for _, flavor := range []string{"ib", "roce"} {
		h, err := OpenHost("sim://?flavor=" + flavor + "&loss=0.5&seed=7&mtu=1024&latency=1us")
		if err != nil {
			t.Fatal(err)
		}
		if h.Peer == nil || h.Peer.Addr == h.Addr || h.Device != "sim0" || h.Port != 1 {
			t.Errorf("host %+v, want device sim0, port 1 and a peer at another address", h)
		}
		h.Close()
		h.Close()
	}
}

// Devices are found by name, interface or address; without one, the first active one is used.
func TestFind(t *testing.T) {
	f := fabric.New(fabric.Config{})
	defer f.Close()
	host := f.AddHost(fabric.HostConfig{Devices: 2, Ports: 2})
	host.Port(0, 1).SetUp(false)
	second := host.Port(0, 2).Addr()
	for name, want := range map[string]*Host{
		"":                 {Device: "sim0", Port: 2, Addr: second},
		"sim0":             {Device: "sim0", Port: 1, Addr: host.Port(0, 1).Addr()},
		"sim1":             {Device: "sim1", Port: 1, Addr: host.Port(1, 1).Addr()},
		"ib1":              {Device: "sim0", Port: 2, Addr: second},
		second.IP.String(): {Device: "sim0", Port: 2, Addr: second},
	} {
		h, err := find(host, name)
		if err != nil || h.Device != want.Device || h.Port != want.Port || h.Addr != want.Addr {
			t.Errorf("find(%q) = %+v, error %v, want %+v", name, h, err, want)
		}
	}
	if _, err := find(host, "mlx5_0"); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), "sim0 (port 1, down, ib0), sim0 (port 2, active, ib1)") {
		t.Error(err)
	}
	for port := 1; port <= 2; port++ {
		host.Port(0, port).SetUp(false)
		host.Port(1, port).SetUp(false)
	}
	if _, err := find(host, ""); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), "no active port has an address") {
		t.Error(err)
	}
	host.RemoveDevice(1)
	host.RemoveDevice(0)
	if _, err := find(host, ""); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), "no RDMA device") {
		t.Error(err)
	}
}

// Of several addresses the requested one is used, else the first IPv4 one.
func TestAddress(t *testing.T) {
	list := []netip.Addr{netip.MustParseAddr("fe80::1"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	for _, c := range []struct {
		addrs      []netip.Addr
		name, want string
	}{
		{list, "", "10.0.0.1"}, {list, "eth0", "10.0.0.1"}, {list, "10.0.0.2", "10.0.0.2"}, {list, "fe80::1", "fe80::1"},
		{list[:1], "", "fe80::1"}, {nil, "", "invalid IP"},
	} {
		if a, ok := address(c.addrs, c.name); a.String() != c.want || ok != (c.addrs != nil) {
			t.Errorf("address %q among %v: %v, %v, want %s", c.name, c.addrs, a, ok, c.want)
		}
	}
}

// The list has the schemes of RDMA, sorted.
func TestSchemes(t *testing.T) {
	if got := rdmaSchemes(); !slices.Equal(got, []string{"rdma", "roce", "sim"}) {
		t.Errorf("RDMA schemes %q, want rdma, roce and sim", got)
	}
	var _ rdma.Provider = &Host{}
}
