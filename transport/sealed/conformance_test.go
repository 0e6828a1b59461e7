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

// The contract of a transport also holds with sealed packets.
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
	// Over two legs, one of which delivers nothing, because the suite expects each packet once.
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

// seal wraps a newly opened transport.
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

// keys returns a keyset of keys with these ids, and secrets derived from the ids.
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

// A train of the maximum number of full packets is sent with one call of the transport below, although sealed packets
// are longer.
func TestFullTrainIsOneCall(t *testing.T) {
	for name, open := range map[string]func() (transport.Transport, error){
		"udp": func() (transport.Transport, error) {
			return udp.Open(udp.Config{Interface: "lo", Port: testenv.Port(t)})
		},
		"udp, 1472 bytes": func() (transport.Transport, error) {
			return udp.Open(udp.Config{Interface: "lo", Port: testenv.Port(t), PacketSize: 1472})
		},
		"mem": func() (transport.Transport, error) { return mem.Open(mem.Config{Network: mem.NewNetwork()}) },
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := open()
			s := seal(t, inner, err)
			defer s.Close()
			tx, err := s.NewSender(1)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Close()
			c := s.Capabilities()
			if name != "mem" && !c.GSO { // without GSO each packet is a call
				return
			}
			n := min(c.MaxTrain, c.MaxTrainBytes/c.PacketSize)
			data, err := s.Alloc(n * c.PacketSize)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Free(data)
			out := transport.Outbound{Data: data, Stride: c.PacketSize, Count: n}
			for range n {
				out.Lens = append(out.Lens, uint16(c.PacketSize))
			}
			before := inner.Stats().SendCalls
			if sent, err := tx.Send(&out); sent != n || err != nil {
				t.Fatalf("%d packets sent, error %v, want %d", sent, err, n)
			}
			if calls := inner.Stats().SendCalls - before; calls != 1 {
				t.Errorf("%d calls for a train of %d packets of %d bytes, want 1", calls, n, c.PacketSize)
			}
		})
	}
}
