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

// PublishBatch costs less than one call for each message. Drain waits until every subscriber has received them.
func ExamplePublisher_PublishBatch() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://batch")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	handled := 0
	_, err = bus.Handle("x", func(msg pubsub.Message, err error) {
		if err == nil {
			handled++
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

	n, err := pub.PublishBatch(ctx, [][]byte{[]byte("one"), []byte("two"), []byte("three")})
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	if err := bus.Close(); err != nil { // no handler runs after this
		log.Fatal(err)
	}
	fmt.Println(n, "published,", handled, "handled")
	// Output: 3 published, 3 handled
}

// TryPublish does not wait. Here a subscription is not read, so its window is soon full.
func ExamplePublisher_TryPublish() {
	ctx := context.Background()
	cfg := pubsub.Config{Loopback: true, ReceiveWindowBytes: 256 << 10, Name: "unread"}
	bus, err := cfg.Open(ctx, "mem://try")
	if err != nil {
		log.Fatal(err)
	}
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

	msg := make([]byte, 1000)
	for err == nil {
		err = pub.TryPublish(msg)
	}
	fmt.Println("no room:", errors.Is(err, events.ErrBackPressure))
	var full *events.BackPressureError
	if errors.As(err, &full) {
		fmt.Println("because of flow control:", full.Reason == events.ReasonFlow)
	}

	// Without the slow subscription there is room again.
	if err := sub.Close(); err != nil {
		log.Fatal(err)
	}
	if err := pub.Publish(ctx, msg); err != nil {
		log.Fatal(err)
	}
	fmt.Println("room again")
	if err := bus.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// no room: true
	// because of flow control: true
	// room again
}

// If a subscriber does not read, and the context of Publish ends, the error names the subscriber.
func ExampleFlowError() {
	ctx := context.Background()
	slow, err := pubsub.Config{Name: "slow-1", ReceiveWindowBytes: 256 << 10}.Open(ctx, "mem://flow")
	if err != nil {
		log.Fatal(err)
	}
	defer slow.Close()
	if _, err := slow.Subscribe("x"); err != nil { // and is not read
		log.Fatal(err)
	}
	bus, err := pubsub.Config{Linger: -1}.Open(ctx, "mem://flow") // Close does not wait for slow-1
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	pub, err := bus.Publisher("x")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}

	msg := make([]byte, 1000)
	var held *events.FlowError
	for !errors.As(err, &held) { // until a call fails because slow-1 holds it up
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		err = pub.Publish(short, msg)
		cancel()
	}
	fmt.Println("blocked by", held.Name)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// blocked by slow-1
	// true
}

// With FlowNone a publisher does not wait for subscribers, and Rate limits it. A subscription that reads too slowly
// has gaps.
func ExampleFlowControl() {
	ctx := context.Background()
	cfg := pubsub.Config{FlowControl: pubsub.FlowNone, Rate: 100 << 20} // 100 MiB a second
	bus, err := cfg.Open(ctx, "mem://none")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	pub, err := bus.Publisher("quotes")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pub.Publish(ctx, []byte("42")))
	// Output: <nil>
}

// The publisher waits for the recorder only; other subscribers may fall behind and have gaps.
func ExampleFlowTagged() {
	ctx := context.Background()
	const url = "mem://tagged"
	recorder, err := pubsub.Config{Tag: "record"}.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer recorder.Close()
	if _, err := recorder.Subscribe("trades"); err != nil {
		log.Fatal(err)
	}
	bus, err := pubsub.Config{FlowControl: pubsub.FlowTagged("record")}.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	pub, err := bus.Publisher("trades")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	for _, r := range pub.Receivers() {
		fmt.Println("waits for", r.Tag)
	}
	// Output: waits for record
}
