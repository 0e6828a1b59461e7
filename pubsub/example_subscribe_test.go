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

// Messages yields messages as they arrive, until the context ends or the subscription is closed. With PublisherEvents
// the sequence includes the beginning and the end of each publisher; without it this loop would wait for another
// publisher.
func ExampleSubscription_Messages() {
	ctx := context.Background()
	there, err := pubsub.Open(ctx, "mem://messages")
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	sub, err := there.Subscribe("lines", pubsub.PublisherEvents())
	if err != nil {
		log.Fatal(err)
	}

	go func() {
		bus, err := pubsub.Open(ctx, "mem://messages")
		if err != nil {
			log.Fatal(err)
		}
		pub, err := bus.Publisher("lines")
		if err != nil {
			log.Fatal(err)
		}
		if err := pub.WaitSubscribers(ctx, 1); err != nil {
			log.Fatal(err)
		}
		for _, line := range []string{"one", "two", "three"} {
			if err := pub.Publish(ctx, []byte(line)); err != nil {
				log.Fatal(err)
			}
		}
		bus.Close() // waits until the subscriber has received everything
	}()

	for msg, err := range sub.Messages(ctx) {
		var event *pubsub.PublisherEvent
		switch {
		case err == nil:
			fmt.Printf("%s\n", msg.Data)
		case errors.As(err, &event) && event.Kind == events.PublisherEnded:
			fmt.Println("the publisher has ended")
			return
		case errors.Is(err, pubsub.ErrGap):
			fmt.Println("lost permanently:", err) // and the sequence continues
		}
	}
	// Output:
	// one
	// two
	// three
	// the publisher has ended
}

// Next waits for one message until the context ends. After that the subscription can still be read.
func ExampleSubscription_Next() {
	ctx := context.Background()
	bus, err := pubsub.Open(ctx, "mem://next")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	sub, err := bus.Subscribe("x")
	if err != nil {
		log.Fatal(err)
	}

	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = sub.Next(short)
	fmt.Println("nothing came in time:", errors.Is(err, context.DeadlineExceeded))
	// Output: nothing came in time: true
}

// NextBatch returns the messages of one packet in one call. Their data is valid until the next call: use Clone to
// keep them.
func ExampleSubscription_NextBatch() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://nextbatch")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	sub, err := bus.Subscribe("x")
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
	if _, err := pub.PublishBatch(ctx, [][]byte{[]byte("a"), []byte("b"), []byte("c")}); err != nil {
		log.Fatal(err)
	}

	var kept []pubsub.Message
	batch := make([]pubsub.Message, 64)
	for len(kept) < 3 {
		n, err := sub.NextBatch(ctx, batch)
		if err != nil {
			log.Fatal(err)
		}
		for _, msg := range batch[:n] {
			kept = append(kept, msg.Clone())
		}
	}
	for _, msg := range kept {
		fmt.Printf("%d %s\n", msg.Number, msg.Data)
	}
	// Output:
	// 0 a
	// 1 b
	// 2 c
}

// A handler is called with each message as soon as it is in order, from the
// goroutine that runs the bus: it must not block.
func ExampleBus_Handle() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://handle")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	done := make(chan struct{})
	_, err = bus.Handle("x", func(msg pubsub.Message, err error) {
		if err != nil { // as Messages yields it, such as a *GapError
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", msg.Data)
		if string(msg.Data) == "last" {
			close(done)
		}
	})
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
	for _, text := range []string{"first", "last"} {
		if err := pub.Publish(ctx, []byte(text)); err != nil {
			log.Fatal(err)
		}
	}
	<-done
	// Output:
	// first
	// last
}

// One subscription may have several topics. Topics can be added and removed while it is read.
func ExampleTopics() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://topics")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	sub, err := bus.Subscribe("md.AAPL", pubsub.Topics("md.MSFT"))
	if err != nil {
		log.Fatal(err)
	}
	if err := sub.Add("md.NVDA"); err != nil {
		log.Fatal(err)
	}
	for _, topic := range []string{"md.AAPL", "md.MSFT", "md.NVDA"} {
		pub, err := bus.Publisher(topic)
		if err != nil {
			log.Fatal(err)
		}
		if err := pub.WaitSubscribers(ctx, 1); err != nil {
			log.Fatal(err)
		}
		if err := pub.Publish(ctx, []byte("price")); err != nil {
			log.Fatal(err)
		}
		msg, err := sub.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", msg.Topic, msg.Data)
	}
	// Output:
	// md.AAPL: price
	// md.MSFT: price
	// md.NVDA: price
}

// Lost messages are a *GapError at their position in the stream, which has their number: messages are never lost
// silently. Here the subscription is read too slowly, and its policy is to lose messages rather than to hold up its
// publisher.
func ExampleGapError() {
	ctx := context.Background()
	cfg := pubsub.Config{Loopback: true, ReceiveWindowBytes: 256 << 10}
	bus, err := cfg.Open(ctx, "mem://gap")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	sub, err := bus.Subscribe("x", pubsub.SlowConsumer(pubsub.SlowGap))
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
	const published = 10_000
	msg := make([]byte, 1000)
	for range published {
		if err := pub.Publish(ctx, msg); err != nil {
			log.Fatal(err)
		}
	}

	received, lost := uint64(0), uint64(0)
	for received+lost < published {
		_, err := sub.Next(ctx)
		var gap *pubsub.GapError
		switch {
		case err == nil:
			received++
		case errors.As(err, &gap):
			lost += gap.Count
		default:
			log.Fatal(err)
		}
	}
	fmt.Println("lost some:", lost > 0)
	fmt.Println("received and lost:", received+lost)
	// Output:
	// lost some: true
	// received and lost: 10000
}

// A subscription may begin with the messages that publishers still hold. Another one continues from stored positions.
func ExampleFrom() {
	ctx := context.Background()
	bus, err := pubsub.Open(ctx, "mem://from")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	pub, err := bus.Publisher("lines")
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range []string{"one", "two", "three"} {
		if err := pub.Publish(ctx, []byte(line)); err != nil {
			log.Fatal(err)
		}
	}

	there, err := pubsub.Open(ctx, "mem://from")
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	var kept pubsub.Positions // in a program that is restarted, as JSON in a file
	for range 2 {
		sub, err := there.Subscribe("lines", pubsub.From(&kept), pubsub.PublisherEvents())
		if err != nil {
			log.Fatal(err)
		}
		for msg, err := range sub.Messages(ctx) {
			if kept.Add(msg, err); err != nil {
				continue // a *PublisherEvent, or a *GapError if some are not held any more
			}
			fmt.Printf("%d %s\n", msg.Number, msg.Data)
			if msg.Number > 0 {
				break
			}
		}
		fmt.Println("restarted")
		sub.Close()
	}
	// Output:
	// 0 one
	// 1 two
	// restarted
	// 2 three
	// restarted
}

// A subscription to a pattern receives all matching topics, also new ones, each from its first message on.
func ExampleBus_Subscribe_wildcard() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://wildcard")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	sub, err := bus.Subscribe("md.*.AAPL", pubsub.Topics("orders.>"))
	if err != nil {
		log.Fatal(err)
	}
	for _, topic := range []string{"md.xnas.AAPL", "md.xnas.MSFT", "orders.new.42"} {
		pub, err := bus.Publisher(topic)
		if err != nil {
			log.Fatal(err)
		}
		if topic != "md.xnas.MSFT" { // matches no pattern
			if err := pub.WaitSubscribers(ctx, 1); err != nil {
				log.Fatal(err)
			}
		}
		if err := pub.Publish(ctx, []byte("hello")); err != nil {
			log.Fatal(err)
		}
	}
	for range 2 {
		msg, err := sub.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(msg.Topic)
	}
	// Unordered output:
	// md.xnas.AAPL
	// orders.new.42
}
