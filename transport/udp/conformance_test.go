package udp_test

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
	"github.com/fanfaremq/fanfare/transport/transporttest"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// Most tests of this package use only loopback. Tests that need another interface, or IPv6 multicast, for which
// loopback has no route, run in a separate network namespace.

// loopback returns the configuration for a test, with groups and a port that no other test uses at the same time.
func loopback(t testing.TB) udp.Config {
	t.Helper()
	return udp.Config{Interface: "127.0.0.1", Range: ownRange(), Port: testenv.Port(t), Groups: 4}
}

var ranges atomic.Uint32

func ownRange() netip.Prefix {
	n := ranges.Add(1)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{239, 21, byte(n >> 4), byte(n << 4)}), 28)
}

func open(t testing.TB, cfg udp.Config) *udp.Transport {
	t.Helper()
	tr, err := udp.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// end closes a transport and polls it until its end.
func end(tr transport.Transport) {
	tr.Close()
	for b := transport.NewBatch(1); tr.Poll(b) == nil; {
		tr.Wait(-1)
	}
}

// conformance runs the suite with and without the kernel's offloads, and with and without package faulty.
func conformance(t *testing.T, config func(testing.TB) udp.Config) {
	for _, c := range []struct {
		gso, gro, faulty bool
	}{
		{true, true, false}, {false, false, false}, {true, false, false}, {false, true, false}, {true, true, true},
	} {
		t.Run(fmt.Sprintf("gso=%v,gro=%v,faulty=%v", c.gso, c.gro, c.faulty), func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
				base := config(t)
				base.NoGSO, base.NoGRO = !c.gso, !c.gro
				return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
					cfg := base
					cfg.Peers = o.Peers
					if !plainPath { // which counts only packets that its own queue drops
						cfg.ReceiveBuffer = o.Queue * 1024
					}
					tr := open(t, cfg)
					if caps := tr.Capabilities(); !c.gso && (caps.GSO || caps.EqualTrains) || !c.gro && caps.GRO {
						t.Fatalf("disabled offloads are on: %+v", caps)
					}
					if c.faulty {
						return faulty.New(tr, faulty.Config{Loss: 1e-300})
					}
					return tr
				}}
			})
		})
	}
}

// docs/protocol §15.1, §15.2, §15.3, §16.2, §16.4, §16.5.
func TestConformance(t *testing.T) { conformance(t, loopback) }
