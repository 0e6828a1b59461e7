//go:build linux

package udp_test

import (
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// BenchmarkSendPoll sends trains from one goroutine and polls them in another, over loopback multicast, and reports
// packets per second. The sender is at most 64 trains ahead, so that nothing is dropped.
func BenchmarkSendPoll(b *testing.B) {
	for _, c := range []struct {
		name          string
		size, packets int
		noGSO, noGRO  bool
	}{
		{"GSO+GRO/44x1472", 1472, 44, false, false},
		{"GSO+GRO/64x64", 64, 64, false, false},
		{"GSO/44x1472", 1472, 44, false, true},
		{"sendmmsg/44x1472", 1472, 44, true, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			cfg := loopback(b)
			cfg.NoGSO, cfg.NoGRO = c.noGSO, c.noGRO
			tx, rx := open(b, cfg), open(b, cfg)
			defer end(tx)
			defer end(rx)
			if err := rx.Join(0); err != nil {
				b.Fatal(err)
			}
			s, err := tx.NewSender(0)
			if err != nil {
				b.Fatal(err)
			}
			const slots = 128
			mem, err := tx.Alloc(slots * c.packets * c.size)
			if err != nil {
				b.Fatal(err)
			}
			out := transport.Outbound{Stride: c.size, Count: c.packets, Lens: make([]uint16, c.packets)}
			for i := range out.Lens {
				out.Lens[i] = uint16(c.size)
			}
			b.SetBytes(int64(c.packets * c.size))
			b.ReportAllocs()
			total := int64(b.N) * int64(c.packets)
			var got atomic.Int64
			done := make(chan struct{})
			b.ResetTimer()
			go func() {
				defer close(done)
				batch := transport.NewBatch(64)
				sum := uint64(0)
				for n := int64(0); n < total; {
					if err := rx.Poll(batch); err != nil {
						b.Error(err)
						return
					}
					for i := range batch.Trains {
						tr := &batch.Trains[i]
						for j := range tr.Count() {
							p := tr.Packet(j)
							sum += uint64(p[0]) + uint64(p[len(p)-1])
						}
						n += int64(tr.Count())
						rx.Release(tr)
					}
					got.Store(n)
					if len(batch.Trains) == 0 {
						rx.Wait(-1)
					}
				}
			}()
			ahead := int64(64 * c.packets)
			for sent := int64(0); sent < total; {
				if sent-got.Load() > ahead {
					continue
				}
				at := sent / int64(c.packets) % slots * int64(c.packets*c.size)
				out.Data = mem[at : at+int64(c.packets*c.size)]
				n, err := s.Send(&out)
				if err != nil {
					b.Fatal(err)
				}
				sent += int64(n)
			}
			<-done
			b.ReportMetric(float64(total)/b.Elapsed().Seconds()/1e6, "Mpackets/s")
			if lost := rx.Stats().ReceiveOverflow; lost > 0 {
				b.Errorf("%d trains overflowed", lost)
			}
		})
	}
}
