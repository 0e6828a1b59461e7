package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A reader that cannot keep up gets the newest price of each symbol. The key is a part of the message, so no memory
// is allocated for it.
func ExampleConflate() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://conflate")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	sub, err := bus.Subscribe("prices", pubsub.Conflate(func(m pubsub.Message) []byte { return m.Data[:4] }))
	if err != nil {
		log.Fatal(err)
	}
	pub, err := bus.Publisher("prices")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	for i := range 100 {
		symbol := []string{"MSFT", "NVDA", "AAPL"}[i%3]
		if err := pub.Publish(ctx, fmt.Appendf(nil, "%s %d", symbol, i)); err != nil {
			log.Fatal(err)
		}
	}
	for sub.Stats().Replaced < 97 { // the others are still on their way
		time.Sleep(time.Millisecond)
	}

	for range 3 {
		msg, err := sub.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", msg.Data)
	}
	// Output:
	// MSFT 99
	// NVDA 97
	// AAPL 98
}

// With SlowLatest a reader that has fallen behind continues with the newest message. The gap has the number of
// skipped messages.
func ExampleMaxBehind() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://latest")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	sub, err := bus.Subscribe("x", pubsub.SlowConsumer(pubsub.SlowLatest), pubsub.MaxBehind(10))
	if err != nil {
		log.Fatal(err)
	}
	pub, err := bus.Publisher("x")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	large := make([]byte, 50_000) // of several packets
	for range 100 {
		if err := pub.Publish(ctx, large); err != nil {
			log.Fatal(err)
		}
	}
	if err := pub.Drain(ctx); err != nil {
		log.Fatal(err)
	}

	for {
		msg, err := sub.Next(ctx)
		var gap *pubsub.GapError
		switch {
		case errors.As(err, &gap):
			fmt.Printf("%d messages left out\n", gap.Count)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Printf("message %d\n", msg.Number)
			return
		}
	}
	// Output:
	// 99 messages left out
	// message 99
}

// With SlowEvict a handler has its own goroutine and may be slow: the bus does not wait for it. If it falls too far
// behind the subscription ends, and its last call has the error.
func ExampleSlowConsumer() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://evict")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	stuck, done := make(chan struct{}), make(chan struct{})
	sub, err := bus.Handle("prices", func(msg pubsub.Message, err error) {
		if errors.Is(err, events.ErrEvicted) {
			fmt.Println("too slow")
			close(done)
			return
		}
		<-stuck
	}, pubsub.SlowConsumer(pubsub.SlowEvict), pubsub.MaxBehind(1))
	if err != nil {
		log.Fatal(err)
	}
	pub, err := bus.Publisher("prices")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	for sub.Err() == nil {
		if err := pub.Publish(ctx, make([]byte, 1000)); err != nil {
			log.Fatal(err)
		}
	}
	close(stuck)
	<-done
	sub.Close()
	// Output: too slow
}
