//go:build linux

package rocenet_test

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/rocenet"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// BenchmarkSendPoll sends trains of 2048-byte packets from one goroutine and polls them in another, over loopback
// multicast: with RoCEv2, and with package transport/udp for comparison. The number of packets in flight is bounded, so
// that nothing is dropped.
func BenchmarkSendPoll(b *testing.B) {
	const size, packets = 2048, 31
	udpTransport := func(b *testing.B) transport.Transport {
		t, err := udp.Open(udp.Config{Interface: "lo", Port: 17400, Range: netip.MustParsePrefix("239.20.0.0/16"), PacketSize: size})
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	roceTransport := func(cfg rocenet.Config) func(*testing.B) transport.Transport {
		return func(b *testing.B) transport.Transport {
			cfg.Interface, cfg.PacketSize = "lo", size
			return open(b, cfg)
		}
	}
	for _, c := range []struct {
		name string
		open func(*testing.B) transport.Transport
	}{
		{"udp", udpTransport},
		{"roce/check=udp", roceTransport(rocenet.Config{Check: roce.CheckUDP})},
		{"roce/check=best", roceTransport(rocenet.Config{})},
		{"roce/check=udp,gso=off", roceTransport(rocenet.Config{Check: roce.CheckUDP, NoGSO: true, NoGRO: true})},
	} {
		b.Run(c.name, func(b *testing.B) { benchSendPoll(b, c.open(b), c.open(b), size, packets) })
	}
}

func benchSendPoll(b *testing.B, tx, rx transport.Transport, size, packets int) {
	defer finish(tx)
	defer finish(rx)
	if err := rx.Join(0); err != nil {
		b.Fatal(err)
	}
	s, err := tx.NewSender(0)
	if err != nil {
		b.Fatal(err)
	}
	batch := transport.NewBatch(64)
	for joined, ready := false, false; !joined || !ready; {
		for _, t := range []transport.Transport{tx, rx} {
			if err := t.Poll(batch); err != nil {
				b.Fatal(err)
			}
			for _, ev := range batch.Events {
				joined = joined || t == rx && ev.State == transport.Joined
				ready = ready || t == tx && ev.State == transport.Joined
			}
		}
		if _, ok := tx.(*udp.Transport); ok {
			ready = true
		}
	}
	const slots = 64
	mem, err := tx.Alloc(slots * packets * size)
	if err != nil {
		b.Fatal(err)
	}
	out := transport.Outbound{Stride: size, Count: packets, Lens: make([]uint16, packets)}
	for i := range out.Lens {
		out.Lens[i] = uint16(size)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	total := int64(b.N+packets-1) / int64(packets) * int64(packets)
	var got atomic.Int64
	done, progress := make(chan struct{}), make(chan struct{}, 1)
	b.ResetTimer()
	cpu := cpuTime(b)
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
			select {
			case progress <- struct{}{}:
			default:
			}
			if len(batch.Trains) == 0 {
				if err := rx.Wait(-1); err != nil {
					b.Error(err)
					return
				}
			}
		}
	}()
	ahead := int64(min(32*packets, rx.Capabilities().ReceiveCapacity-packets))
	for sent := int64(0); sent < total; {
		if sent-got.Load() > ahead {
			<-progress
			continue
		}
		at := sent / int64(packets) % slots * int64(packets*size)
		out.Data = mem[at : at+int64(packets*size)]
		n, err := s.Send(&out)
		if err != nil {
			b.Fatal(err)
		}
		sent += int64(n)
	}
	<-done
	// On a busy machine CPU time varies less than elapsed time.
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(total), "cpu-ns/op")
	if lost := rx.Stats().ReceiveOverflow; lost > 0 {
		b.Errorf("%d packets overflowed", lost)
	}
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func finish(t transport.Transport) {
	t.Close()
	for b := transport.NewBatch(1); t.Poll(b) == nil; {
		t.Wait(-1)
	}
}
