package pubsub_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/fanfaremq/fanfare/pubsub"
)

// A claim is room for one message, to be filled before it is published.
func ExamplePublisher_Claim() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://claim")
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

	claim, err := pub.Claim(8)
	if err != nil {
		log.Fatal(err)
	}
	binary.LittleEndian.PutUint64(claim.Bytes(), 42)
	if err := claim.Commit(ctx); err != nil {
		log.Fatal(err)
	}
	msg, err := sub.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(binary.LittleEndian.Uint64(msg.Data))
	// Output: 42
}
