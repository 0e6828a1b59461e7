package pubsub_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"

	"github.com/fanfaremq/fanfare/pubsub"
)

// A publisher keeps prices and publishes their changes. A later subscriber first gets all prices, and then every
// change since.
func ExamplePublisher_State() {
	ctx := context.Background()
	const url = "mem://state"
	here, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer here.Close()
	pub, err := here.Publisher("prices")
	if err != nil {
		log.Fatal(err)
	}

	// One lock for publishing a change and for applying it to prices.
	var mu sync.Mutex
	prices := make(map[string]int)
	change := func(name string, price int) {
		mu.Lock()
		defer mu.Unlock()
		if err := pub.Publish(ctx, fmt.Appendf(nil, "%s %d", name, price)); err != nil {
			log.Fatal(err)
		}
		prices[name] = price
	}
	err = pub.State(func(w *pubsub.StateWriter) error {
		mu.Lock()
		defer mu.Unlock()
		if _, err := w.Begin(); err != nil { // needed in case there are no prices
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(prices)) {
			if err := w.Write(fmt.Appendf(nil, "%s %d", name, prices[name])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	change("apples", 3)
	change("pears", 4)
	change("apples", 5)

	there, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	sub, err := there.Subscribe("prices", pubsub.From(pubsub.State))
	if err != nil {
		log.Fatal(err)
	}
	for msg, err := range sub.Messages(ctx) {
		switch {
		case err != nil:
			log.Fatal(err)
		case msg.IsStateEnd():
			fmt.Println("as of message", msg.Number)
			change("pears", 6)
		case msg.IsState():
			fmt.Printf("%s\n", msg.Data)
		default:
			fmt.Printf("message %d: %s\n", msg.Number, msg.Data)
			return
		}
	}
	// Output:
	// apples 5
	// pears 4
	// as of message 3
	// message 3: pears 6
}

// A later subscriber first gets the last message.
func ExamplePublisher_Retain() {
	ctx := context.Background()
	const url = "mem://retain"
	here, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer here.Close()
	pub, err := here.Publisher("weather")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.Retain(); err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"rain", "sun"} {
		if err := pub.Publish(ctx, []byte(text)); err != nil {
			log.Fatal(err)
		}
	}

	there, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	sub, err := there.Subscribe("weather", pubsub.From(pubsub.State))
	if err != nil {
		log.Fatal(err)
	}
	msg, err := sub.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", msg.Data)
	// Output: sun
}
