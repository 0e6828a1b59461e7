package pubsub

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A bus with Config.Loopback delivers its own messages, to readers and handlers, and counts as its own subscriber; a
// bus without does neither. docs/protocol §3.4.
func TestLoopback(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		b := openBus(t, Config{Loopback: true}, url)
		other := openBus(t, Config{}, url)
		sub, theirs := subscribe(t, b, "x", PublisherEvents()), subscribe(t, other, "x")
		handled := make(chan string, 1000)
		if _, err := b.Handle("x", func(m Message, err error) {
			if err == nil {
				handled <- string(m.Data)
			}
		}); err != nil {
			t.Fatal(err)
		}
		pub := publisher(t, b, "x")
		wait(t, ctx, pub, 2)
		event(t, ctx, sub, events.PublisherUp)
		for i := range 500 {
			publish(t, ctx, pub, fmt.Sprint(i))
		}
		for i := range 500 {
			text := fmt.Sprint(i)
			if m := want(t, ctx, sub, text); m.Publisher() != b.ID() {
				t.Fatalf("published by %v, want %v", m.Publisher(), b.ID())
			}
			want(t, ctx, theirs, text)
			select {
			case got := <-handled:
				if got != text {
					t.Fatalf("the handler got %q, want %q", got, text)
				}
			case <-ctx.Done():
				t.Fatal("the handler does not receive messages of its own bus")
			}
		}
		if err := pub.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		// The other bus has no subscriber of its own, and does not receive its own messages.
		back := publisher(t, other, "x")
		wait(t, ctx, back, 1)
		publish(t, ctx, back, "back")
		event(t, ctx, sub, events.PublisherUp)
		want(t, ctx, sub, "back")
		publish(t, ctx, pub, "end")
		want(t, ctx, theirs, "end")
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Flow control waits for the bus's own reader as for others: one goroutine publishes far more than a window, another
// one reads.
func TestLoopbackFlow(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		b := openBus(t, Config{Loopback: true, WindowBytes: 256 << 10, ReceiveWindowBytes: 256 << 10}, url)
		sub := subscribe(t, b, "x")
		pub := publisher(t, b, "x")
		wait(t, ctx, pub, 1)
		const n = 3000
		go func() {
			msg := make([]byte, 1000)
			for i := range n {
				copy(msg, fmt.Sprintf("%8d", i))
				if err := pub.Publish(ctx, msg); err != nil {
					t.Error(err)
					return
				}
			}
			pub.Flush(ctx)
		}()
		for i := range n {
			m, err := sub.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(m.Data[:8]); got != fmt.Sprintf("%8d", i) {
				t.Fatalf("message %d is %q, want its number", i, got)
			}
		}
	})
}

// A handler publishes on its own bus with Loopback: messages with room are published, and a call that would wait for
// room returns an error, because the bus waits for the handler.
func TestLoopbackPublishInHandler(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		b := openBus(t, Config{Loopback: true, WindowBytes: 64 << 10, FlushAfter: time.Microsecond}, url)
		answers, questions := publisher(t, b, "answer"), publisher(t, b, "question")
		full, published := make(chan error, 1), atomic.Int64{}
		msg := make([]byte, 1000)
		if _, err := b.Handle("question", func(m Message, err error) {
			if err != nil {
				return
			}
			if string(m.Data) != "flood" {
				if err := answers.Publish(ctx, m.Data); err != nil {
					t.Error(err)
				}
				return
			}
			for range 10_000 {
				if err = answers.Publish(ctx, msg); err != nil {
					break
				}
				published.Add(1)
			}
			full <- err
		}); err != nil {
			t.Fatal(err)
		}
		sub := subscribe(t, b, "answer")
		wait(t, ctx, answers, 1)
		wait(t, ctx, questions, 1)
		for i := range 100 { // question, handler, answer
			publish(t, ctx, questions, fmt.Sprint(i))
			want(t, ctx, sub, fmt.Sprint(i))
		}
		publish(t, ctx, questions, "flood")
		select {
		case err := <-full:
			if !errors.Is(err, ErrInHandler) {
				t.Errorf("10 MB from a handler, with a window of 64 KiB: error %v, want %v", err, ErrInHandler)
			}
		case <-ctx.Done():
			t.Fatal("a handler that publishes on its own bus hangs")
		}
		for range published.Load() {
			want(t, ctx, sub, string(msg))
		}
		publish(t, ctx, questions, "after")
		want(t, ctx, sub, "after")
	})
}

// A bus with Loopback can be closed while its own messages are unread.
func TestLoopbackClose(t *testing.T) {
	ctx := testContext(t)
	b := openBus(t, Config{Loopback: true, Linger: time.Minute}, memURL(t))
	subscribe(t, b, "x")
	pub := publisher(t, b, "x")
	wait(t, ctx, pub, 1)
	for i := range 100 {
		publish(t, ctx, pub, fmt.Sprint(i))
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
