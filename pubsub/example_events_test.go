package pubsub_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// OnEvent is called with each event of the bus. It must not block: here it passes one kind of event on.
func ExampleConfig_onEvent() {
	ctx := context.Background()
	ended := make(chan events.Event, 1)
	cfg := pubsub.Config{OnEvent: func(e events.Event) {
		if e.Kind == events.PublisherEnded {
			ended <- e
		}
	}}
	there, err := cfg.Open(ctx, "mem://events")
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	if _, err := there.Subscribe("x"); err != nil {
		log.Fatal(err)
	}

	here, err := pubsub.Config{Name: "prices-1"}.Open(ctx, "mem://events")
	if err != nil {
		log.Fatal(err)
	}
	pub, err := here.Publisher("x")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	if err := here.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-ended).Name, "has ended")
	// Output: prices-1 has ended
}

// A publisher knows the subscribers of its topic, how far behind each is, and whether it blocks the publisher.
func ExamplePublisher_Receivers() {
	ctx := context.Background()
	there, err := pubsub.Config{Name: "dashboard"}.Open(ctx, "mem://receivers")
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	if _, err := there.Subscribe("x"); err != nil {
		log.Fatal(err)
	}

	here, err := pubsub.Open(ctx, "mem://receivers")
	if err != nil {
		log.Fatal(err)
	}
	defer here.Close()
	pub, err := here.Publisher("x")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	for _, r := range pub.Receivers() {
		fmt.Printf("%s, %d packets behind, holds us up: %t\n", r.Name, r.Behind, r.Holds)
	}
	// Output: dashboard, 0 packets behind, holds us up: false
}

// The topics of a fabric, their publishers, and their rates.
func ExampleBus_Topics() {
	ctx := context.Background()
	feed, err := pubsub.Config{Name: "feed"}.Open(ctx, "mem://example-topics")
	if err != nil {
		log.Fatal(err)
	}
	defer feed.Close()
	for _, topic := range []string{"md.AAPL", "md.MSFT", "news"} {
		p, err := feed.Publisher(topic)
		if err != nil {
			log.Fatal(err)
		}
		if err := p.Publish(ctx, []byte("hello")); err != nil {
			log.Fatal(err)
		}
	}
	bus, err := pubsub.Open(ctx, "mem://example-topics")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()

	listening, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	list, err := bus.Topics(listening, "md.>")
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range list.Topics {
		for _, p := range t.Publishers {
			fmt.Println(t.Name, p.Name, p.Messages)
		}
	}
	// Output:
	// md.AAPL feed 1
	// md.MSFT feed 1
}
