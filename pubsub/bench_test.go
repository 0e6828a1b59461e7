package pubsub

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkPublish64 is one publisher and one subscription with a handler in
// one process: what publish, send, receive and deliver cost together.
func BenchmarkPublish64(b *testing.B) {
	benchmarkPublish(b, "mem://"+b.Name(), 64)
}

func benchmarkPublish(b *testing.B, url string, size int) {
	ctx := b.Context()
	quiet := slog.New(slog.DiscardHandler)
	pubBus, err := Config{Logger: quiet}.Open(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer pubBus.Close()
	subBus, err := Config{Logger: quiet}.Open(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer subBus.Close()
	var got atomic.Int64
	n := int64(0)
	if _, err := subBus.Handle("x", func(m Message, err error) {
		if err != nil {
			b.Error(err)
		}
		if n++; n == int64(b.N) {
			got.Store(n)
		}
	}); err != nil {
		b.Fatal(err)
	}
	pub, err := pubBus.Publisher("x")
	if err != nil {
		b.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		b.Fatal(err)
	}
	msg := make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if err := pub.Publish(ctx, msg); err != nil {
			b.Fatal(err)
		}
	}
	pub.Drain(ctx)
	for got.Load() == 0 && !b.Failed() {
		time.Sleep(time.Millisecond)
		if n >= int64(b.N) {
			break
		}
	}
}

// BenchmarkPublish64UDP is the same over UDP multicast on loopback.
func BenchmarkPublish64UDP(b *testing.B) {
	benchmarkPublish(b, "udp://239.20.0.0/16?iface=lo", 64)
}

// BenchmarkPublishOnly64 is what publishing costs its caller: nobody subscribes.
func BenchmarkPublishOnly64(b *testing.B) {
	ctx := b.Context()
	bus, err := Open(ctx, "mem://"+b.Name())
	if err != nil {
		b.Fatal(err)
	}
	defer bus.Close()
	shared, err := bus.Publisher("x")
	if err != nil {
		b.Fatal(err)
	}
	msg := make([]byte, 64)
	b.Run("shared", func(b *testing.B) {
		for b.Loop() {
			if err := shared.Publish(ctx, msg); err != nil {
				b.Fatal(err)
			}
		}
	})
	own := exclusive(b, bus, "x")
	b.Run("exclusive", func(b *testing.B) {
		for b.Loop() {
			if err := own.Publish(ctx, msg); err != nil {
				b.Fatal(err)
			}
		}
	})
}
