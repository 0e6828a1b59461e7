package fanfare_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	fanfare "github.com/fanfaremq/fanfare/contrib/watermill"
	"github.com/fanfaremq/fanfare/pubsub"
)

// A router receives orders of all regions and publishes fills. On a network the URL is for instance
// udp://239.20.0.0/16?iface=eth0: see pubsub.Open.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	// Publisher and subscriber share a bus, so it needs Loopback.
	bus, err := pubsub.Config{Loopback: true}.Open(ctx, "mem://router")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	subscriber, err := fanfare.NewSubscriber(bus, fanfare.SubscriberConfig{})
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := fanfare.NewPublisher(bus, fanfare.PublisherConfig{Subscribers: 1})
	if err != nil {
		log.Fatal(err)
	}

	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		log.Fatal(err)
	}
	router.AddHandler("fill", "orders.>", subscriber, "fills", publisher, func(msg *message.Message) ([]*message.Message, error) {
		in, _ := fanfare.MessageFromCtx(msg.Context())
		fill := message.NewMessage("fill-of-"+msg.UUID, msg.Payload)
		fill.Metadata.Set("order", in.Topic)
		return []*message.Message{fill}, nil
	})
	router.AddConsumerHandler("print", "fills", subscriber, func(msg *message.Message) error {
		fmt.Println(msg.UUID, msg.Metadata.Get("order"), string(msg.Payload))
		cancel()
		return nil
	})
	go func() {
		<-router.Running()
		if err := publisher.Publish("orders.eu.17", message.NewMessage("17", []byte("100 AAPL"))); err != nil {
			log.Fatal(err)
		}
	}()
	if err := router.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: fill-of-17 orders.eu.17 100 AAPL
}
