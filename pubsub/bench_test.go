package pubsub

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkPublish64 measures publishing, sending, receiving and delivering together: one publisher and one
// subscription with a handler in one process.
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

// BenchmarkPublish64UDP is BenchmarkPublish64 over UDP multicast on loopback.
func BenchmarkPublish64UDP(b *testing.B) {
	benchmarkPublish(b, "udp://239.20.0.0/16?iface=lo", 64)
}

// BenchmarkPublishOnly64 measures publishing without subscribers.
func BenchmarkPublishOnly64(b *testing.B) {
	ctx := b.Context()
	bus, err := Open(ctx, "mem://"+b.Name())
	if err != nil {
		b.Fatal(err)
	}
	defer bus.Close()
	pub, err := bus.Publisher("x")
	if err != nil {
		b.Fatal(err)
	}
	msg := make([]byte, 64)
	for b.Loop() {
		if err := pub.Publish(ctx, msg); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkInProcess64 compares one publisher and one reader of batches in one process with a buffered Go channel of
// 64-byte values.
func BenchmarkInProcess64(b *testing.B) {
	b.Run("bus", func(b *testing.B) {
		ctx := b.Context()
		url := "mem://" + b.Name()[:len("BenchmarkInProcess64")]
		pubBus, subBus := openBus(b, Config{}, url), openBus(b, Config{}, url)
		sub := subscribe(b, subBus, "x")
		pub := publisher(b, pubBus, "x")
		if err := pub.WaitSubscribers(ctx, 1); err != nil {
			b.Fatal(err)
		}
		var want, got atomic.Int64
		done := make(chan error, 1)
		go func() {
			msgs := make([]Message, 64)
			for got.Load() != want.Load() || got.Load() == 0 {
				n, err := sub.NextBatch(ctx, msgs)
				if err != nil {
					done <- err
					return
				}
				got.Add(int64(n))
			}
			done <- nil
		}()
		want.Store(-1)
		msg := make([]byte, 64)
		n := int64(0)
		for b.Loop() {
			if err := pub.Publish(ctx, msg); err != nil {
				b.Fatal(err)
			}
			n++
		}
		want.Store(n + 1)
		if err := pub.Publish(ctx, msg); err != nil {
			b.Fatal(err)
		}
		pub.Flush(ctx)
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	})
	b.Run("channel", func(b *testing.B) {
		c := make(chan [64]byte, 4096)
		done := make(chan struct{})
		go func() {
			for range c {
			}
			close(done)
		}()
		var msg [64]byte
		for b.Loop() {
			c <- msg
		}
		close(c)
		<-done
	})
}
