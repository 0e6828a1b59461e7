package legs_test

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/transporttest"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// The contract holds over two legs, whichever of them delivers the packets. The suite expects each packet once, so one
// of the legs loses all that it receives; everything else uses both.
func TestConformance(t *testing.T) {
	for name, fabric := range map[string]func(t *testing.T) openLeg{"mem": memLegs, "udp": udpLegs} {
		for good, leg := range []string{"second", "first"} {
			t.Run(name+"/"+leg, func(t *testing.T) {
				if good == 1 {
					testenv.Slow(t)
				}
				run(t, fabric, good, func(l transport.Transport) transport.Transport {
					return faulty.New(l, faulty.Config{Loss: 1})
				})
			})
		}
	}
	for i, leg := range []string{"second", "first"} {
		t.Run("one wait/"+leg, func(t *testing.T) {
			if i == 1 {
				testenv.Slow(t)
			}
			run(t, udpLegs, i, func(l transport.Transport) transport.Transport { return mute{l.(transport.Pollable)} })
		})
	}
}

// run runs the suite over two legs. All legs but the good one are wrapped by spoil.
func run(t *testing.T, fabric func(t *testing.T) openLeg, good int, spoil func(transport.Transport) transport.Transport) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
		open := []openLeg{fabric(t), fabric(t)}
		return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
			var both []transport.Transport
			for i := range open {
				l := open[i](t, o)
				if i != good {
					l = spoil(l)
				}
				both = append(both, l)
			}
			return join(t, both...)
		}}
	})
}

// mute is a leg that loses all that it receives, and has a descriptor to wait with.
type mute struct{ transport.Pollable }

func (m mute) Poll(b *transport.Batch) error {
	err := m.Pollable.Poll(b)
	for i := range b.Trains {
		m.Release(&b.Trains[i])
	}
	b.Trains = b.Trains[:0]
	return err
}

type openLeg func(t testing.TB, o transporttest.Options) transport.Transport

func memLegs(*testing.T) openLeg {
	n := mem.NewNetwork()
	return func(t testing.TB, o transporttest.Options) transport.Transport {
		l, err := mem.Open(mem.Config{Network: n, QueueTrains: o.Queue, Peers: o.Peers})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

var ranges atomic.Uint32

func udpLegs(t *testing.T) openLeg {
	n := ranges.Add(1)
	cfg := udp.Config{
		Interface: "127.0.0.1", Port: testenv.Port(t), Groups: 4,
		Range: netip.PrefixFrom(netip.AddrFrom4([4]byte{239, 23, byte(n >> 4), byte(n << 4)}), 28),
	}
	return func(t testing.TB, o transporttest.Options) transport.Transport {
		c := cfg
		c.Peers, c.ReceiveBuffer = o.Peers, o.Queue*1024
		l, err := udp.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// join makes one transport of legs.
func join(t testing.TB, all ...transport.Transport) *legs.Transport {
	t.Helper()
	names := []string{"A", "B", "C", "D"}
	x, err := legs.New(all, names[:len(all)])
	if err != nil {
		t.Fatal(err)
	}
	return x
}
