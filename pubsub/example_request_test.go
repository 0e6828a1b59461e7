package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

// responder opens a bus that answers requests on topic with f.
func responder(ctx context.Context, url, name, topic string, f func([]byte) string) *pubsub.Bus {
	bus, err := pubsub.Config{Name: name}.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	_, err = bus.Handle(topic, func(msg pubsub.Message, err error) {
		if err == nil && msg.IsRequest() {
			err = msg.Respond([]byte(f(msg.Data)))
		}
		if err != nil {
			log.Print(err)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	return bus
}

// Request returns the first reply.
func ExampleBus_Request() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const url = "mem://request"
	there := responder(ctx, url, "shouter", "shout", func(b []byte) string { return strings.ToUpper(string(b)) })
	defer there.Close()

	here, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer here.Close()
	reply, err := here.Request(ctx, "shout", []byte("hello"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s from %s\n", reply.Data, reply.Name)

	_, err = here.Request(ctx, "whisper", []byte("hello"))
	fmt.Println(errors.Is(err, pubsub.ErrNoResponders))
	// Output:
	// HELLO from shouter
	// true
}

// RequestMany with n = 0 ends when every subscriber has replied.
func ExampleBus_RequestMany() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const url = "mem://requestmany"
	for _, name := range []string{"lisbon", "oslo", "rome"} {
		defer responder(ctx, url, name, "weather", func([]byte) string { return "fine in " + name }).Close()
	}
	here, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer here.Close()
	pub, err := here.Publisher("weather")
	if err != nil {
		log.Fatal(err)
	}
	if err := pub.WaitSubscribers(ctx, 3); err != nil { // otherwise only the subscribers known so far are asked
		log.Fatal(err)
	}

	var replies []string
	for reply, err := range here.RequestMany(ctx, "weather", nil, 0) {
		if err != nil {
			log.Fatal(err)
		}
		replies = append(replies, string(reply.Data))
	}
	slices.Sort(replies)
	fmt.Println(replies)
	// Output: [fine in lisbon fine in oslo fine in rome]
}

// A reply may be sent after the handler has returned.
func ExampleMessage_Respond() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const url = "mem://respond"
	there, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	requests, err := there.Subscribe("slow.task")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for msg, err := range requests.Messages(ctx) {
			if err != nil {
				log.Print(err)
				continue
			}
			msg := msg.Clone()
			go func() { // however long it takes
				err := msg.Respond([]byte("done: " + string(msg.Data)))
				again := msg.Respond(nil)
				if err != nil || !errors.Is(again, pubsub.ErrAnswered) {
					log.Print(err, again)
				}
			}()
		}
	}()

	here, err := pubsub.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer here.Close()
	reply, err := here.Request(ctx, "slow.task", []byte("7"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", reply.Data)
	// Output: done: 7
}
