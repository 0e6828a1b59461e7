//go:build linux

package rocenet_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/rocenet"
	"github.com/fanfaremq/fanfare/transport/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
		return fabric(t, rocenet.Config{Interface: "lo", Range: ownGroups(t), Groups: 16, Check: roce.CheckUDP})
	})
}

// The same with a raw socket, in a network namespace, because a raw socket receives all RoCEv2 packets of the host.
func TestConformanceRaw(t *testing.T) {
	testenv.Slow(t)
	if !testenv.Namespace(t) {
		return
	}
	transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
		return fabric(t, rocenet.Config{Interface: "lo", Check: roce.CheckFull})
	})
}

// The same over IPv6, in a network namespace in which loopback has a route for groups.
func TestConformanceIPv6(t *testing.T) {
	testenv.Slow(t)
	if !testenv.Namespace(t) {
		return
	}
	testenv.RouteIPv6Multicast(t, "lo")
	transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
		return fabric(t, rocenet.Config{Interface: "::1", Check: roce.CheckUDP})
	})
}

// fabric returns a fabric for the suite, of endpoints with this configuration.
func fabric(t *testing.T, cfg rocenet.Config) transporttest.Fabric {
	return transporttest.Fabric{Open: func(_ testing.TB, o transporttest.Options) transport.Transport {
		c := cfg
		c.ReceiveQueue, c.Peers = 512, o.Peers
		if o.Queue > 0 {
			c.ReceiveQueue, c.ReceiveBuffer = o.Queue, o.Queue*1024
		}
		return open(t, c)
	}}
}

// The capability Checked is true unless the ICRC is reconstructed, which happens only for IPv4 with a UDP socket.
// docs/protocol §17.7.
func TestChecked(t *testing.T) {
	for _, c := range []struct {
		cfg  rocenet.Config
		want bool
	}{
		{rocenet.Config{Interface: "127.0.0.1", Check: roce.CheckUDP}, false},
		{rocenet.Config{Interface: "127.0.0.1", Check: roce.CheckFull}, true},
		{rocenet.Config{Interface: "::1", Check: roce.CheckUDP}, true},
		{rocenet.Config{Interface: "::1", Check: roce.CheckFull}, true},
	} {
		tr, err := rocenet.Open(c.cfg)
		if errors.Is(err, syscall.EPERM) && c.cfg.Check == roce.CheckFull {
			testenv.Skip(t, "CAP_NET_RAW is missing")
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Capabilities().Checked; got != c.want {
			t.Errorf("%+v: Checked is %v, want %v", c.cfg, got, c.want)
		}
		end(tr)
	}
}

// ownGroups returns groups that no other test uses, in this process or another: all tests share loopback and the RoCEv2
// port, and would otherwise receive each other's packets.
func ownGroups(t testing.TB) netip.Prefix {
	port := testenv.Port(t)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{239, byte(port >> 8), byte(port), 0}), 24)
}

func open(t testing.TB, cfg rocenet.Config) *rocenet.Transport {
	t.Helper()
	tr, err := rocenet.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func end(tr *rocenet.Transport) {
	tr.Close()
	for b := transport.NewBatch(1); tr.Poll(b) == nil; {
		tr.Wait(-1)
	}
}
