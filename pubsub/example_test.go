package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fanfaremq/fanfare/pubsub"
)

// A publisher and a subscriber. Here both are in one program, on a fabric within the process; with the URL
// udp://239.20.0.0/16?iface=eth0 they may be anywhere on a network.
func Example() {
	ctx := context.Background()
	const url = "mem://example"

	// The subscriber.
	there, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	sub, err := there.Subscribe("greetings")
	if err != nil {
		log.Fatal(err)
	}

	// The publisher.
	here, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer here.Close()
	pub, err := here.Publisher("greetings")
	if err != nil {
		log.Fatal(err)
	}
	// A subscription receives messages published after its publisher knows of it.
	if err := pub.WaitSubscribers(ctx, 1); err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"hello", "world"} {
		if err := pub.Publish(ctx, []byte(text)); err != nil {
			log.Fatal(err)
		}
	}

	for range 2 {
		msg, err := sub.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %d: %s\n", msg.Topic, msg.Number, msg.Data)
	}
	// Output:
	// greetings 0: hello
	// greetings 1: world
}

// Config configures a bus. Here it sets a name, which subscribers see, and delivers the bus's own messages to it.
func ExampleConfig() {
	ctx := context.Background()
	cfg := pubsub.Config{
		Name:     "prices-1", // the same after a restart
		Loopback: true,       // receive this bus's own messages
	}
	bus, err := cfg.Open(ctx, "mem://config")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()

	sub, err := bus.Subscribe("prices")
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
	if err := pub.Publish(ctx, []byte("42")); err != nil {
		log.Fatal(err)
	}
	msg, err := sub.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, of this bus: %t\n", msg.Data, msg.Publisher() == bus.ID())
	// Output: 42, of this bus: true
}

// A network that loses, repeats and reorders packets: messages arrive in order,
// each once. Faults are for tests; they need no privilege and no other network.
func ExampleConfig_faults() {
	ctx := context.Background()
	cfg := pubsub.Config{Loopback: true, Faults: "loss=0.1,dup=0.05,reorder=0.1,seed=7"}
	bus, err := cfg.Open(ctx, "mem://faults")
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

	const n = 100
	for i := range n {
		if err := pub.Publish(ctx, fmt.Appendf(nil, "message %d", i)); err != nil {
			log.Fatal(err)
		}
		if err := pub.Flush(ctx); err != nil { // a packet for each message, so that some are lost
			log.Fatal(err)
		}
	}
	for i := range n {
		msg, err := sub.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if want := fmt.Sprintf("message %d", i); string(msg.Data) != want {
			log.Fatalf("got %q, want %q", msg.Data, want)
		}
	}
	fmt.Println("all in order, each once")
	// Output: all in order, each once
}

// A topic name is checked before anything is opened for it.
func ExampleCheckTopic() {
	for _, name := range []string{"md.xnas.AAPL", "md..AAPL", "md.xnas.*"} {
		err := pubsub.CheckTopic(name)
		fmt.Println(name, err == nil, errors.Is(err, pubsub.ErrWildcard))
	}
	// Output:
	// md.xnas.AAPL true false
	// md..AAPL false false
	// md.xnas.* false true
}

// Stats returns the counters of a bus.
func ExampleBus_Stats() {
	ctx := context.Background()
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://stats")
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
	if err := pub.Publish(ctx, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	if _, err := sub.Next(ctx); err != nil {
		log.Fatal(err)
	}
	stats := bus.Stats()
	for _, p := range stats.Publications {
		fmt.Println("messages sent:", p.MessagesSent)
	}
	for _, g := range stats.Groups {
		fmt.Println("packets lost permanently:", g.Lost)
	}
	// Output:
	// messages sent: 1
	// packets lost permanently: 0
}

// Shutdown ends a bus as Close does, and waits until the context ends for subscribers to receive everything.
func ExampleBus_Shutdown() {
	ctx := context.Background()
	bus, err := pubsub.Open(ctx, "mem://shutdown")
	if err != nil {
		log.Fatal(err)
	}
	pub, err := bus.Publisher("x")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.Publish(ctx, []byte("goodbye")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bus.Shutdown(ctx))
	// Output: <nil>
}
