package pubsub

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkPublish1KiB2048 compares RoCEv2 in user space with plain UDP over loopback: messages of 1 KiB in datagrams
// of 2048 bytes.
func BenchmarkPublish1KiB2048(b *testing.B) {
	for _, c := range []struct{ name, url string }{
		{"udp", udp1KiB},
		{"roce", "roce://lo?size=2048"},
		{"roce check=udp", "roce://lo?size=2048&check=udp"},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkPublish(b, c.url, 1024) })
	}
}

const udp1KiB = "udp://239.20.0.0/16?iface=lo&port=17401&size=2048"

// BenchmarkRoCEVersusUDP compares the same in pairs: an iteration is a short run over UDP and then one over RoCE, so
// that other load affects both equally; each run opens and closes its own buses. It reports medians of the time and
// the processor time of a message, publisher and subscriber together, and UDP's share of RoCE's in percent. 30
// iterations (-benchtime 30x) take some seconds.
func BenchmarkRoCEVersusUDP(b *testing.B) {
	for _, c := range []struct{ name, url string }{
		{"check=best", "roce://lo?size=2048"},
		{"check=udp", "roce://lo?size=2048&check=udp"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var udpWall, udpCPU, roceWall, roceCPU, wall, cpu []float64
			for b.Loop() {
				w0, c0 := runStretch(b, udp1KiB)
				w1, c1 := runStretch(b, c.url)
				udpWall, udpCPU = append(udpWall, w0), append(udpCPU, c0)
				roceWall, roceCPU = append(roceWall, w1), append(roceCPU, c1)
				wall, cpu = append(wall, 100*w0/w1), append(cpu, 100*c0/c1)
			}
			b.ReportMetric(0, "ns/op") // an iteration is not one operation
			b.ReportMetric(median(udpWall), "udp-ns/msg")
			b.ReportMetric(median(udpCPU), "udp-cpu-ns/msg")
			b.ReportMetric(median(roceWall), "roce-ns/msg")
			b.ReportMetric(median(roceCPU), "roce-cpu-ns/msg")
			b.ReportMetric(median(wall), "%-of-udp")
			b.ReportMetric(median(cpu), "%-of-udp-by-cpu")
		})
	}
}

// runStretch sends messages of 1 KiB from one bus to another and waits until all are received. It returns the wall
// time and the processor time of the process for each message, in nanoseconds.
func runStretch(b *testing.B, url string) (wall, cpu float64) {
	b.Helper()
	const warmUp, messages = 10000, 50000
	var buses []*Bus
	for range 2 {
		bus, err := Config{Logger: quiet}.Open(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		defer bus.Close()
		buses = append(buses, bus)
	}
	var got atomic.Int64
	if _, err := buses[1].Handle("x", func(_ Message, err error) {
		if err != nil {
			b.Error(err)
		}
		got.Add(1)
	}); err != nil {
		b.Fatal(err)
	}
	pub := publisher(b, buses[0], "x")
	if err := pub.WaitSubscribers(b.Context(), 1); err != nil {
		b.Fatal(err)
	}
	msg := make([]byte, 1024)
	send := func(n, total int64) {
		for range n {
			if err := pub.Publish(b.Context(), msg); err != nil {
				b.Fatal(err)
			}
		}
		for pub.Flush(b.Context()); got.Load() < total && !b.Failed(); {
			time.Sleep(20 * time.Microsecond)
		}
	}
	usage := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	send(warmUp, warmUp)
	start, used := time.Now(), usage()
	send(messages, warmUp+messages)
	return float64(time.Since(start)) / messages, float64(usage()-used) / messages
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
