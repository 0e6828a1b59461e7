package mem_test

import (
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
		n := mem.NewNetwork()
		return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
			return open(t, mem.Config{Network: n, QueueTrains: o.Queue, Peers: o.Peers})
		}}
	})
}

func open(t testing.TB, cfg mem.Config) *mem.Transport {
	t.Helper()
	tr, err := mem.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func end(tr *mem.Transport) {
	tr.Close()
	for tr.Poll(transport.NewBatch(1)) == nil {
	}
}

// Endpoints with the same name are on one network, those with another name on another. A network ends with its last
// endpoint.
func TestNames(t *testing.T) {
	receives := func(from, to *mem.Transport) bool {
		s, err := from.NewSender(0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := to.Join(0); err != nil {
			t.Fatal(err)
		}
		s.Send(&transport.Outbound{Data: []byte("x"), Stride: 1, Count: 1, Lens: []uint16{1}})
		b := transport.NewBatch(4)
		if err := to.Poll(b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Trains {
			to.Release(&b.Trains[i])
		}
		return len(b.Trains) > 0
	}
	a, b, c := open(t, mem.Config{Name: "one"}), open(t, mem.Config{Name: "one"}), open(t, mem.Config{Name: "two"})
	if !receives(a, b) || receives(a, c) {
		t.Error("names do not separate networks")
	}
	if got := a.GroupAddress(3); got != "mem://one/3" {
		t.Errorf("GroupAddress = %q, want mem://one/3", got)
	}
	b.Join(1)
	end(a)
	if d := open(t, mem.Config{Name: "one"}); !receives(d, b) {
		t.Error("the network ended with its first endpoint")
	} else {
		end(d)
	}
	end(b)
	end(c)
	if n := mem.Registered(); n != 0 {
		t.Errorf("%d networks are left in the registry, want none", n)
	}
}

func TestParse(t *testing.T) {
	u, _ := url.Parse("mem://desk?groups=4&size=900&queue=77&lend=5&peers=3&maxpacket=1000")
	got, err := mem.Parse(u)
	want := mem.Config{Name: "desk", Groups: 4, PacketSize: 900, QueueTrains: 77, LendMax: 5, Peers: 3, MaxPacket: 1000}
	if err != nil || got != want {
		t.Errorf("Parse = %+v, %v; want %+v", got, err, want)
	}
	for raw, hint := range map[string]string{
		"udp://x":              "scheme",
		"mem://x/y":            "mem://name",
		"mem://x?grups=3":      "known are",
		"mem://x?groups=a":     "not a number",
		"mem://x?groups=0":     "above 0",
		"mem://x?size=1e9":     "not a number",
		"mem://x?size=%zz":     "query",
		"mem://x?groups=65537": "65536",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mem.Parse(u); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("Parse(%q): error %v, want one with %q", raw, err, hint)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, cfg := range []mem.Config{{Groups: -1}, {PacketSize: 1 << 20}, {MaxPacket: 65508}, {QueueTrains: -1}, {LendMax: -1}, {Peers: 1 << 20}} {
		if _, err := mem.Open(cfg); err == nil {
			t.Errorf("Open(%+v): no error", cfg)
		}
	}
}

// BenchmarkOneToOne sends trains of 64-byte messages from one goroutine to another, and reports messages per second.
func BenchmarkOneToOne(b *testing.B) {
	for _, packet := range []int{1472, 65000} {
		b.Run(map[int]string{1472: "44x1472", 65000: "1x65000"}[packet], func(b *testing.B) {
			n := mem.NewNetwork()
			tx, rx := open(b, mem.Config{Network: n}), open(b, mem.Config{Network: n})
			defer end(tx)
			defer end(rx)
			rx.Join(0)
			s, _ := tx.NewSender(0)
			count := 65000 / packet
			buf, _ := tx.Alloc(count * packet)
			out := &transport.Outbound{Data: buf, Stride: packet, Count: count, Lens: make([]uint16, count)}
			for i := range out.Lens {
				out.Lens[i] = uint16(packet)
			}
			b.SetBytes(int64(len(buf)))
			b.ReportAllocs()
			var got, sent atomic.Int64
			done := make(chan struct{})
			total := int64(b.N)
			b.ResetTimer()
			go func() {
				defer close(done)
				batch := transport.NewBatch(64)
				var sum uint64
				for got.Load() < total {
					if err := rx.Poll(batch); err != nil {
						return
					}
					for i := range batch.Trains {
						tr := &batch.Trains[i]
						for off := 0; off+64 <= len(tr.Data); off += 64 {
							sum += uint64(tr.Data[off])
						}
						rx.Release(tr)
					}
					got.Add(int64(len(batch.Trains)))
					if len(batch.Trains) == 0 {
						rx.Wait(-1)
					}
				}
			}()
			for sent.Load() < total {
				if sent.Load()-got.Load() > 64 {
					continue
				}
				s.Send(out)
				sent.Add(1)
			}
			<-done
			b.ReportMetric(float64(total)*float64(len(buf)/64)/b.Elapsed().Seconds()/1e6, "Mmsgs/s")
		})
	}
}
