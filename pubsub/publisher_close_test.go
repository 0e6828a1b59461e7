package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Close of a publisher flushes, and later calls fail; other publishers of the topic and the numbering of its messages
// continue.
func TestPublisherClose(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		sub := subscribe(t, subBus, "x", PublisherEvents())
		first, second := publisher(t, pubBus, "x"), publisher(t, pubBus, "x")
		wait(t, ctx, first, 1)
		publish(t, ctx, first, "0")
		for range 2 { // Close is idempotent
			if err := first.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
		_, batchErr := first.PublishBatch(ctx, [][]byte{nil})
		for name, err := range map[string]error{
			"Publish": first.Publish(ctx, nil), "TryPublish": first.TryPublish(nil), "PublishBatch": batchErr,
			"Flush": first.Flush(ctx), "Drain": first.Drain(ctx),
			"WaitSubscribers": first.WaitSubscribers(ctx, 1),
		} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after Close: error %v, want %v", name, err, net.ErrClosed)
			}
		}
		publish(t, ctx, second, "1")
		publish(t, ctx, publisher(t, pubBus, "x"), "2")
		if _, err := sub.Next(ctx); err == nil || err.(*PublisherEvent).Kind != events.PublisherUp {
			t.Fatalf("got %v, want PublisherUp", err)
		}
		for i := range 3 {
			if m := want(t, ctx, sub, fmt.Sprint(i)); m.Number != uint64(i) {
				t.Errorf("message %d has number %d, want equal ones", i, m.Number)
			}
		}
		pubBus.Close()
		if err := second.Close(ctx); err != nil {
			t.Errorf("Close after the bus's: %v", err)
		}
	})
}

// Close during calls of Publish: messages for which Publish returned nil arrive, and later calls return an error.
// Close can be called again after its context has ended.
func TestPublisherCloseDuringPublish(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	for pub.TryPublish(make([]byte, 1000)) == nil { // until the subscriber, which does not read, has no room
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := pub.Close(ended); !errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) {
		t.Errorf("Close with an ended context: error %v, want %v", err, context.Canceled)
	}
	pub = publisher(t, pubBus, "x")
	var wg sync.WaitGroup
	taken := make([]int, 4)
	for i := range taken {
		wg.Go(func() {
			var err error
			for err == nil {
				if err = pub.Publish(ctx, []byte("y")); err == nil {
					taken[i]++
				}
			}
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("Publish: error %v, want %v", err, net.ErrClosed)
			}
		})
	}
	got := 0
	for msg, err := range sub.Messages(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if len(msg.Data) != 1 {
			continue
		}
		if got++; got == 1000 {
			break
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- pub.Close(ctx) }()
	go func() {
		wg.Wait()
		last := publisher(t, pubBus, "x")
		publish(t, ctx, last, "end")
	}()
	for msg, err := range sub.Messages(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if string(msg.Data) == "end" {
			break
		}
		got++
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if sum := taken[0] + taken[1] + taken[2] + taken[3]; got != sum {
		t.Errorf("%d messages were accepted, %d delivered, want equal numbers", sum, got)
	}
}
