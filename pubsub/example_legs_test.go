package pubsub_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fanfaremq/fanfare/pubsub"
)

// The same feed arrives over two networks, here two in memory. Packets lost on one arrive on the other, and no
// message is delivered twice.
func ExampleOpen_legs() {
	ctx := context.Background()
	open := func(faults string) *pubsub.Bus {
		bus, err := pubsub.Config{Faults: faults}.Open(ctx, "mem://network-a", "mem://network-b")
		if err != nil {
			log.Fatal(err)
		}
		return bus
	}
	pubBus, subBus := open(""), open("loss=0.3")
	defer pubBus.Close()
	defer subBus.Close()
	sub, err := subBus.Subscribe("prices")
	if err != nil {
		log.Fatal(err)
	}
	pub, err := pubBus.Publisher("prices")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	for i := range 1000 {
		if err := pub.Publish(ctx, fmt.Append(nil, i)); err != nil {
			log.Fatal(err)
		}
	}
	sum := 0
	for range 1000 {
		m, err := sub.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		var n int
		fmt.Sscan(string(m.Data), &n)
		sum += n
	}
	for _, leg := range subBus.Stats().Legs {
		fmt.Println(leg.URL, "is up:", leg.Up)
	}
	fmt.Println("sum:", sum)
	// Output:
	// mem://network-a is up: true
	// mem://network-b is up: true
	// sum: 499500
}
