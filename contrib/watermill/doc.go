// Package fanfare implements Watermill's message.Publisher and message.Subscriber on a bus.
//
//	bus, err := pubsub.Open(ctx, "udp://239.20.0.0/16?iface=eth0")
//	defer bus.Close()
//
//	publisher, err := fanfare.NewPublisher(bus, fanfare.PublisherConfig{})
//	err = publisher.Publish("orders.new", message.NewMessage(watermill.NewUUID(), payload))
//
//	subscriber, err := fanfare.NewSubscriber(bus, fanfare.SubscriberConfig{})
//	messages, err := subscriber.Subscribe(ctx, "orders.*")
//
// The caller opens and closes the bus, which may have several of each. By default a bus
// does not receive its own messages: a publisher and a subscriber in one process need
// two buses, or one with pubsub.Config.Loopback.
//
// # Guarantees
//
// Every subscription gets every message of its topic: there are no consumer groups, and
// no messages are stored for absent subscribers. A publisher's messages on one topic
// arrive in order, each once. Lost packets are repaired; if that is impossible the loss
// is logged, counted and passed to OnError, never silent.
//
// Acks are local. A message is delivered after the previous one was acked, and Nack
// delivers the same message again, from memory. Neither is sent: a publisher knows what
// its subscribers' buses have received, not what was handled. When a process or the
// context of a subscription ends, messages that were not acked are lost: across restarts
// delivery is at most once, otherwise at least once.
//
// A subscriber that acks slowly blocks publishers, like any slow subscription, up to a
// limit (pubsub.Config.StallLimit). pubsub.SlowConsumer in SubscriberConfig.Options
// changes that.
//
// A subscription receives what is published after it began. With
// pubsub.From(pubsub.Window) in the options it begins with the messages that publishers
// hold for repairs: in memory, by default 8 MiB a group, lost with the process. A
// publisher that must wait for subscribers sets PublisherConfig.Subscribers.
//
// Subscribe accepts patterns such as "orders.>". MessageFromCtx returns the topic, the
// publisher and the number of a message.
//
// # On the wire
//
// A message is an envelope (package github.com/fanfaremq/fanfare/contrib/envelope) with
// the payload as its body. Its headers are the message's metadata, and UUIDHeader has its
// UUID. Messages published without an envelope, as by the command fanfare pub, are errors
// for a subscriber unless its Unmarshaler is Raw. The adapter for the Go CDK uses the same
// envelope.
package fanfare
