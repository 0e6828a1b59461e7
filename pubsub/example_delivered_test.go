package pubsub_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Drain waits until the subscribers have received everything; Delivered is the number of messages they have received.
func ExamplePublisher_Delivered() {
	ctx := context.Background()
	there, err := pubsub.Open(ctx, "mem://delivered")
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	if _, err := there.Subscribe("orders"); err != nil { // unread: its bus has received the messages
		log.Fatal(err)
	}
	bus, err := pubsub.Open(ctx, "mem://delivered")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	pub, err := bus.Publisher("orders")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		if err := pub.Publish(ctx, fmt.Appendf(nil, "order %d", i)); err != nil {
			log.Fatal(err)
		}
	}
	if err := pub.Drain(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(pub.Delivered(), "orders are with all subscribers")
	// Output: 3 orders are with all subscribers
}
