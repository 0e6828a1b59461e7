package pubsub_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Losses lists what a bus lost in the last hour, and why. fanfare loss shows it for all processes of a host.
func ExampleBus_Losses() {
	bus, err := pubsub.Open(context.Background(), "mem://losses")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	r := bus.Losses()
	for _, l := range r.Losses {
		fmt.Printf("%v %s: %d messages of %s from %s, subscription %s\n", l.First, l.Cause, l.Messages, l.Topic, l.Name, l.Subscription)
	}
	for _, m := range r.Minutes {
		fmt.Printf("%v: %d packets missing, %d repaired\n", m.Start, m.Missing, m.Repaired)
	}
	fmt.Println(len(r.Losses), "losses")
	// Output: 0 losses
}
