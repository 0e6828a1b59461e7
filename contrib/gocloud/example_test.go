package fanfarepubsub_test

import (
	"context"
	"fmt"
	"log"

	"gocloud.dev/pubsub"

	fanfarepubsub "github.com/fanfaremq/fanfare/contrib/gocloud"
	fanfare "github.com/fanfaremq/fanfare/pubsub"
)

// On a network the URL is for instance udp://239.20.0.0/16?iface=eth0: see pubsub.Open of Fanfare.
func Example() {
	ctx := context.Background()
	// Topic and subscription share a bus, so it needs Loopback.
	bus, err := fanfare.Config{Loopback: true}.Open(ctx, "mem://gocloud")
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	subscription, err := fanfarepubsub.OpenSubscription(bus, "orders.>", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer subscription.Shutdown(ctx)
	topic, err := fanfarepubsub.OpenTopic(bus, "orders.eu", &fanfarepubsub.TopicOptions{Subscribers: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer topic.Shutdown(ctx)

	if err := topic.Send(ctx, &pubsub.Message{Body: []byte("100 AAPL"), Metadata: map[string]string{"id": "17"}}); err != nil {
		log.Fatal(err)
	}
	msg, err := subscription.Receive(ctx)
	if err != nil {
		log.Fatal(err)
	}
	msg.Ack()
	var from fanfare.Message
	if msg.As(&from) {
		fmt.Println(from.Topic, msg.Metadata["id"], string(msg.Body))
	}
	// Output: orders.eu 17 100 AAPL
}
