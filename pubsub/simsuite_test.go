package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

// TestSimSuite runs the tests of delivery (order, every message once, large messages, many publishers and topics,
// ends) over simulated subnets with faults. They must pass unchanged.
func TestSimSuite(t *testing.T) {
	testenv.Slow(t)
	tests := []struct {
		name string
		run  func(*testing.T)
	}{
		{"PublishSubscribe", TestPublishSubscribe},
		{"LargeMessages", func(t *testing.T) { eachFabric(t, largeMessages) }},
		{"ManyPublishersOneGroup", TestManyPublishersOneGroup},
		{"TopicsOfOneGroup", TestTopicsOfOneGroup},
		{"PublishersInOrder", TestPublishersInOrder},
		{"NextBatch", TestNextBatch},
		{"BackPressure", TestBackPressure},
		{"PublisherEvents", TestPublisherEvents},
		{"CloseOfSubscriberIsNoGap", TestCloseOfSubscriberIsNoGap},
		{"CloseUnderLoad", TestCloseUnderLoad},
		{"CloseUnderPublishers", TestCloseUnderPublishers},
	}
	for _, subnet := range []struct {
		name, options string
		endpoint      string // options of each bus
		// prepare, if not nil, is called with the name of the subnet before each test.
		prepare func(t testing.TB, name, options string)
		// struck counts faults that had an effect; nil if that depends on timing.
		struck func(stats.Bus) uint64
	}{
		{"lossy", "loss=0.02&dup=0.01&reorder=0.02", "", nil, missing},
		{"lossy RoCE", "flavor=roce&mtu=1024&loss=0.02&dup=0.01&reorder=0.02", "", nil, missing},
		{"no send-only members", "sendonly=off&loss=0.01", "", nil, func(s stats.Bus) uint64 { return s.Transport.SendOnlyRefused }},
		{"MLIDs exhausted", "mlids=6", "groups=4", exhaust, nil},
		// TestSimAdversity checks that it overflows.
		{"receive queue of 16", "", "rq=16", nil, nil},
		{"memberships lost", "switches=3", "", stir, func(s stats.Bus) uint64 { return s.Transport.MembershipsLost }},
	} {
		if testing.Short() && subnet.name != "lossy RoCE" && subnet.name != "memberships lost" {
			continue // these cover what the race detector could find in the others
		}
		t.Run(subnet.name, func(t *testing.T) {
			was := fabrics
			defer func() { fabrics, atClose = was, nil }()
			fabrics = []testFabric{{"sim", func(t testing.TB) string {
				options := join("seed="+simSeed(t), subnet.options)
				if subnet.prepare != nil {
					subnet.prepare(t, strings.TrimPrefix(simURL(t), "sim://"), options)
				}
				return simURL(t) + "?" + join(options, subnet.endpoint)
			}}}
			var struck atomic.Uint64
			if subnet.struck != nil {
				atClose = func(s stats.Bus) { struck.Add(subnet.struck(s)) }
			}
			all := t.Run("NoGoroutineLeft", TestNoGoroutineLeft) // not in parallel with others
			all = t.Run("beside", func(t *testing.T) {
				for _, test := range tests {
					t.Run(test.name, func(t *testing.T) {
						t.Parallel()
						test.run(t)
					})
				}
			}) && all
			if subnet.struck != nil && struck.Load() == 0 && all {
				t.Error("no fault had an effect on the subnet: the tests show nothing")
			}
		})
	}
}

// join joins two lists of URL options.
func join(a, b string) string { return strings.Trim(a+"&"+b, "&") }

// missing is the number of packets that subscribers found missing.
func missing(s stats.Bus) (n uint64) {
	for _, g := range s.Groups {
		n += g.Missing
	}
	return n
}

// exhaust occupies all six multicast LIDs of a subnet until the test ends: four for the groups of the tested buses,
// which share them, and two for others. It checks that a further group is refused.
func exhaust(t testing.TB, name, options string) {
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse("sim://" + name + "?" + options)
	must(err)
	cfg, err := simnet.ParseSubnet(u)
	must(err)
	subnet, host, err := simnet.Attach(cfg)
	must(err)
	ch, err := host.NewEventChannel()
	must(err)
	id, err := ch.CreateID(rdma.PortSpaceUDP, nil)
	must(err)
	t.Cleanup(func() {
		if err := id.Destroy(ctx); err != nil {
			t.Error(err)
		}
		if err := ch.Close(); err != nil {
			t.Error(err)
		}
		subnet.Detach(host)
	})
	must(id.Bind(host.Addr()))

	// Groups 0 to 5 of a bus that may use more.
	more := "sim://" + name + "?" + join(options, "groups=8")
	probe, err := Config{Logger: quiet}.Open(ctx, more)
	must(err)
	defer probe.Close()
	further := ""
	held := map[int]bool{}
	for i := 0; len(held) < 6 || further == ""; i++ {
		topic := fmt.Sprintf("topic.%d", i)
		group := probe.Group(topic)
		if group >= 6 {
			further = topic
			continue
		}
		if held[group] {
			continue
		}
		held[group] = true
		addr := rdma.IPAddr(netip.AddrFrom4([4]byte{239, 20, 0, byte(group)}))
		must(id.JoinMulticast(addr, nil))
		ev, err := ch.GetEvent(ctx)
		must(err)
		must(ev.Err())
		must(ev.Ack())
	}
	sub, err := probe.Subscribe(further)
	must(err)
	if _, err := sub.Next(ctx); !errors.Is(err, transport.ErrGroupLimit) {
		t.Fatalf("a group beyond the multicast LIDs: error %v, want %v", err, transport.ErrGroupLimit)
	}
}

// stir restarts the subnet manager of a subnet repeatedly until the test ends, the first time soon: all memberships
// are lost and joined again.
func stir(t testing.TB, name, _ string) {
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		for pause := 10 * time.Millisecond; ; pause = time.Second {
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			if s := simnet.Lookup(name); s != nil {
				s.Fabric.RestartSM()
			}
		}
	}()
}
