//go:build linux

package roce

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
	"github.com/fanfaremq/fanfare/rdma/rdmatest"
)

// settle is the time for one Settle of the suite: loopback delivers before a send returns, and events need a goroutine.
const settle = 500 * time.Microsecond

// notMet has the statements that the provider does not meet, with the reasons.
var notMet = map[int]string{}

func TestConformance(t *testing.T) {
	for _, check := range []Check{CheckUDP, CheckFull} {
		if check == CheckFull && testing.Short() {
			continue // it runs in TestConformanceOnWire
		}
		name := fmt.Sprintf("roce lo check=%v", check)
		t.Run(name, func(t *testing.T) {
			if check == CheckFull && !rawAllowed() {
				testenv.Skip(t, "CAP_NET_RAW is missing")
			}
			s := rdmatest.Run(t, rdmatest.Target{
				Name: name, Tags: rdmatest.RoCE | rdmatest.Wire, NotMet: notMet, Wire: wireTests(check),
				Open: func(t testing.TB, o rdmatest.Options) (*rdmatest.Net, error) {
					return openNet(t, check, o, onLoopback)
				},
			})
			wantAll(t, &s)
		})
	}
}

// wantAll checks that each statement has an outcome.
func wantAll(t *testing.T, s *rdmatest.Summary) {
	t.Helper()
	total := 0
	for _, n := range s.Counts {
		total += n
	}
	if total != 125 {
		t.Errorf("%d statements have an outcome, want 125", total)
	}
}

// onLoopback returns the interface and address of host i: loopback, with a different address for each host.
func onLoopback(i int) (string, netip.Addr) {
	return "lo", netip.AddrFrom4([4]byte{127, 77, 0, byte(i + 1)})
}

// openNet makes hosts.
func openNet(t testing.TB, check Check, o rdmatest.Options, where func(host int) (string, netip.Addr)) (*rdmatest.Net, error) {
	if o.PKey != 0 || o.Scope != 0 || o.NoSendOnly || o.Silent || o.OddRecord {
		return nil, fmt.Errorf("%w: there is no subnet manager", rdmatest.ErrCannot)
	}
	if o.NoRoute {
		return nil, fmt.Errorf("%w: routes follow from the device, not from a routing table", rdmatest.ErrCannot)
	}
	var hosts []*Provider
	n := &rdmatest.Net{Privileged: rawAllowed()}
	for i := range o.Hosts {
		link, ip := where(i)
		p := openProvider(t, Config{
			Interfaces: []string{link}, Addrs: []netip.Addr{ip}, Check: check, ReceiveBuffer: 1 << 18,
			Limits: func(a *rdma.DeviceAttr) {
				if o.NoMulticast {
					a.MaxMcastGrp, a.MaxMcastQPAttach, a.MaxTotalMcastQPAttach = 0, 0, 0
				}
				if o.MaxMcastQPAttach > 0 {
					a.MaxMcastQPAttach = o.MaxMcastQPAttach
				}
			},
		})
		hosts = append(hosts, p)
		n.Hosts = append(n.Hosts, rdmatest.Host{Provider: p, Addr: rdma.IPAddr(ip)})
	}
	n.Settle = func() { time.Sleep(settle) }
	n.Advance = time.Sleep
	n.SetNetDevMTU = func(host, mtu int) {
		hosts[host].devices[0].soft.UpdatePort(1, func(s *soft.PortState) { s.NetDevMTU = mtu })
	}
	n.SetPKeys = func(host int, keys ...rdma.PKey) {
		hosts[host].devices[0].soft.UpdatePort(1, func(s *soft.PortState) { s.PKeys = keys })
		hosts[host].devices[0].soft.PortEvent(rdma.AsyncPKeyChange, 1)
	}
	n.RemoveDevice = func(host int) { hosts[host].devices[0].soft.Remove() }
	n.RemoveGIDs = func(host int) {
		hosts[host].devices[0].soft.UpdatePort(1, func(s *soft.PortState) { s.GIDs = nil })
		hosts[host].devices[0].soft.PortEvent(rdma.AsyncGIDChange, 1)
	}
	return n, nil
}

// openProvider opens a provider, and closes it at the end of the test.
func openProvider(t testing.TB, cfg Config) *Provider {
	t.Helper()
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// must fails the test with an error. It skips the test if port 4791 is in use.
func must(t testing.TB, what string, err error) {
	t.Helper()
	var inUse *PortInUseError
	if errors.As(err, &inUse) {
		testenv.Skip(t, "%s: %v", what, err)
	}
	if err != nil {
		t.Fatalf("%s failed: %v", what, err)
	}
}
