package sealed_test

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/transporttest"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// The contract holds over sealed packets as over others.
func TestConformance(t *testing.T) {
	t.Run("mem", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
			n := mem.NewNetwork()
			return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
				m, err := mem.Open(mem.Config{Network: n, QueueTrains: o.Queue, Peers: o.Peers})
				return seal(t, m, err)
			}}
		})
	})
	t.Run("udp", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
			port := testenv.Port(t)
			return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
				u, err := udp.Open(udp.Config{Interface: "lo", Port: port, ReceiveBuffer: o.Queue * 512, Peers: o.Peers})
				return seal(t, u, err)
			}}
		})
	})
	// Over two legs, of which one brings nothing: the suite wants each packet once.
	t.Run("legs", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
			nets := []*mem.Network{mem.NewNetwork(), mem.NewNetwork()}
			return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
				var both []transport.Transport
				for i, n := range nets {
					m, err := mem.Open(mem.Config{Network: n, QueueTrains: o.Queue, Peers: o.Peers})
					if err != nil {
						t.Fatal(err)
					}
					both = append(both, m)
					if i == 0 {
						both[0] = faulty.New(m, faulty.Config{Loss: 1})
					}
				}
				l, err := legs.New(both, []string{"first", "second"})
				return seal(t, l, err)
			}}
		})
	})
}

// seal wraps a transport that was just opened.
func seal(t testing.TB, inner transport.Transport, err error) transport.Transport {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s, err := sealed.New(inner, sealed.Config{Keys: sealed.Static{Keyset: keys(t, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keys are a keyset of keys with these ids, and secrets made of them.
func keys(t testing.TB, ids ...sealed.KeyID) *sealed.Keyset {
	t.Helper()
	var list []sealed.Key
	for _, id := range ids {
		list = append(list, sealed.Key{ID: id, Secret: [32]byte{byte(id), byte(id >> 8), 7}})
	}
	s, err := sealed.NewKeyset(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
