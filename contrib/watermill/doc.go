// Package fanfare is Fanfare for Watermill: a message.Publisher and a message.Subscriber
// over a bus.
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
// Both belong to the bus, which the caller opens and closes, and of which there may be
// several of each. A bus does not hear itself: a publisher and a subscriber in one
// process take two buses, or one with pubsub.Config.Loopback.
//
// # What holds, and what does not
//
// Every subscription gets every message of its topic: there are no consumer groups, and
// no messages are stored for absent subscribers. A publisher's messages on one topic
// come in order, each once. What is lost on the way is repaired; what cannot be repaired
// is logged, counted and passed to OnError, never left out in silence.
//
// Acks are local. The next message is given out when the one before was acked, and Nack
// gives the same message out again, from memory. Nothing of that is sent: a publisher
// knows what has come to its subscribers' buses, not what they made of it. A process
// that ends, or a subscription when its context does, has lost what it had not acked: to
// its handlers delivery is at most once across restarts, and at least once without.
//
// A subscriber that acks slowly holds publishers up, as any subscription that is read
// slowly, until a limit (pubsub.Config.StallLimit). pubsub.SlowConsumer among
// SubscriberConfig.Options says otherwise.
//
// A subscription begins with what is published from then on. With pubsub.From(pubsub.Window)
// among the options it begins with what publishers still hold for repairs, which is
// memory, 8 MiB a group unless configured, and gone with the process. A publisher that
// should wait for subscribers before it begins sets PublisherConfig.Subscribers.
//
// Subscribe takes patterns, too, such as "orders.>". MessageFromCtx says on which topic and
// from which publisher a message came, and its number.
//
// # On the wire
//
// A message is an envelope (package github.com/fanfaremq/fanfare/contrib/envelope) with
// the payload as its body. Its headers are the message's metadata, and UUIDHeader has its
// UUID. What was published without an envelope, as by the command fanfare pub, is
// malformed to a subscriber unless its Unmarshaler is Raw. The adapter for the Go CDK
// writes the same envelope.
package fanfare
