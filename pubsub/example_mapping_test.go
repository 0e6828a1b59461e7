package pubsub_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fanfaremq/fanfare/pubsub"
)

// With map=prefix:2 topics that begin with the same two tokens are in one group: a pattern with these two tokens
// joins one group of 64. With map=hash it joins all.
func ExampleOpen_map() {
	ctx := context.Background()
	for _, mapping := range []string{"hash", "prefix:2"} {
		bus, err := pubsub.Open(ctx, "mem://mapping?groups=64&map="+mapping)
		if err != nil {
			log.Fatal(err)
		}
		defer bus.Close()
		if _, err := bus.Subscribe("md.xnas.>"); err != nil {
			log.Fatal(err)
		}
		fmt.Println(mapping, "joins", len(bus.Stats().Groups), "of", bus.Groups(), "groups")
	}
	// Output:
	// hash joins 64 of 64 groups
	// prefix:2 joins 1 of 64 groups
}
