package fabric

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/rdmatest"
)

// settleTime is longer than all delays of the tests' fabrics, except timeouts of requests to the subnet administrator.
const settleTime = 100 * time.Millisecond

func TestConformance(t *testing.T) {
	t.Parallel() // the test mostly waits
	for _, flavor := range []Flavor{InfiniBand, RoCE} {
		for _, live := range []bool{false, true} {
			name := "fabric " + flavor.String()
			if live {
				name += " live"
			}
			t.Run(name, func(t *testing.T) {
				if live {
					testenv.Slow(t)
				}
				tags := rdmatest.IB
				if flavor == RoCE {
					tags = rdmatest.RoCE
				}
				s := rdmatest.Run(t, rdmatest.Target{
					Name: name, Tags: tags,
					Open: func(t testing.TB, o rdmatest.Options) (*rdmatest.Net, error) { return openNet(t, flavor, live, o) },
				})
				total := 0
				for _, n := range s.Counts {
					total += n
				}
				if total != 125 {
					t.Errorf("%d statements have an outcome, want 125", total)
				}
				// The numbers of statements that do not apply are those of docs/rdma.md, so that no omission is unnoticed.
				// Statements that -run leaves out count as failed.
				want := map[Flavor][4]int{InfiniBand: {rdmatest.Passed: 92, rdmatest.NotApplicable: 33}, RoCE: {rdmatest.Passed: 88, rdmatest.NotApplicable: 37}}[flavor]
				if s.Counts[rdmatest.Failed] == 0 && s.Counts != want {
					t.Errorf("%d passed, %d are not applicable, %d not met; want %d, %d and %d", s.Counts[rdmatest.Passed], s.Counts[rdmatest.NotApplicable],
						s.Counts[rdmatest.NotMet], want[rdmatest.Passed], want[rdmatest.NotApplicable], want[rdmatest.NotMet])
				}
			})
		}
	}
}

// openNet makes a network for a statement.
func openNet(t testing.TB, flavor Flavor, live bool, o rdmatest.Options) (*rdmatest.Net, error) {
	cfg := Config{Flavor: flavor, Live: live, PKey: o.PKey, Scope: o.Scope, Switches: 3,
		SM: SM{NoSendOnly: o.NoSendOnly, Silent: o.Silent}}
	if o.OddRecord {
		cfg.SM.Override = func(g *Group) {
			g.SL, g.FlowLabel, g.HopLimit, g.TClass, g.Rate = 3, 0x12345, 7, 0x5c, 6
		}
	}
	if !live {
		cfg.Latency, cfg.ProgrammingDelay, cfg.SM.ResponseDelay = time.Microsecond, time.Millisecond, 100*time.Microsecond
	}
	f := New(cfg)
	t.Cleanup(func() { f.Close() })
	n := &rdmatest.Net{}
	var hosts []*Host
	for range o.Hosts {
		h := f.AddHost(HostConfig{NoMulticastRoute: o.NoRoute, Limits: func(a *rdma.DeviceAttr) {
			if o.NoMulticast {
				a.MaxMcastGrp, a.MaxMcastQPAttach, a.MaxTotalMcastQPAttach = 0, 0, 0
			}
			if o.MaxMcastQPAttach > 0 {
				a.MaxMcastQPAttach = o.MaxMcastQPAttach
			}
		}})
		hosts = append(hosts, h)
		n.Hosts = append(n.Hosts, rdmatest.Host{Provider: h, Addr: h.Addr()})
	}
	n.Settle = func() { f.AdvanceTo(f.Now() + settleTime) }
	n.Advance = func(d time.Duration) { f.AdvanceTo(f.Now() + d) }
	if live {
		n.Settle = func() { time.Sleep(2 * time.Millisecond) }
		n.Advance = time.Sleep
	}
	port := func(host int) *Port { return hosts[host].Port(0, 1) }
	n.Trace = func() []rdmatest.Record {
		kinds := map[RecordKind]rdmatest.RecordKind{SASet: rdmatest.SASet, SADelete: rdmatest.SADelete, IGMPReport: rdmatest.IGMPReport, IGMPLeave: rdmatest.IGMPLeave}
		var records []rdmatest.Record
		for _, r := range f.Trace() {
			kind, ok := kinds[r.Kind]
			if !ok || r.Refused {
				continue
			}
			host := slices.IndexFunc(hosts, func(h *Host) bool { return h.HostName() == r.Host })
			records = append(records, rdmatest.Record{Kind: kind, Host: host, MGID: r.MGID, State: r.State})
		}
		return records
	}
	n.SetPort = func(host int, up bool) { port(host).SetUp(up) }
	n.RemoveDevice = func(host int) { hosts[host].RemoveDevice(0) }
	n.SetNetDevMTU = func(host, mtu int) { port(host).SetNetDevMTU(mtu) }
	n.RemoveGIDs = func(host int) { port(host).RemoveGIDs() }
	n.SetPKeys = func(host int, keys ...rdma.PKey) { port(host).SetPKeys(keys...) }
	if flavor == InfiniBand {
		n.Group = func(mgid rdma.GID) (rdma.AHAttr, bool) {
			g, mlid, ok := f.Record(mgid)
			return rdma.AHAttr{DLID: mlid, SL: g.SL, StaticRate: g.Rate, GRH: rdma.GRH{
				DGID: mgid, FlowLabel: g.FlowLabel, HopLimit: g.HopLimit, TrafficClass: g.TClass}}, ok
		}
		n.ChangeLID = func(host int) { port(host).ChangeLID() }
		n.Reregister = func(host int) { port(host).Reregister() }
		n.SetIPoIB = func(host int, up bool) { port(host).SetIPoIB(up) }
	}
	return n, nil
}
