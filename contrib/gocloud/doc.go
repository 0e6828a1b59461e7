// Package fanfarepubsub is a driver of Fanfare for the Go CDK, gocloud.dev/pubsub.
//
//	bus, err := pubsub.Open(ctx, "udp://239.20.0.0/16?iface=eth0") // Fanfare's
//	defer bus.Close()
//
//	topic, err := fanfarepubsub.OpenTopic(bus, "orders.new", nil)
//	defer topic.Shutdown(ctx)
//
//	subscription, err := fanfarepubsub.OpenSubscription(bus, "orders.>", nil)
//	defer subscription.Shutdown(ctx)
//
// Topics and subscriptions belong to the bus, which the caller closes after them. A bus
// does not hear itself unless it is opened with pubsub.Config.Loopback.
//
// # URLs
//
// For pubsub.OpenTopic and pubsub.OpenSubscription of the Go CDK this package registers
// the scheme "fanfare"; the fabric is that of the environment variable FANFARE_URL, such as
// udp://239.20.0.0/16?iface=eth0. What is opened by such URLs shares a bus with Loopback,
// which is closed with the last of it. See URLOpener for others.
//
//	fanfare://orders.new                   a topic, or a subscription to it
//	fanfare://orders.new?subscribers=1     a topic: the first message waits for a subscriber
//	fanfare://orders.>?from=window         a subscription to a pattern
//
// # At most once
//
// Every subscription gets every message of its topic, those of one publisher in order,
// each once. What is lost on the way is repaired; what cannot be is logged and passed to
// SubscriptionOptions.OnError. No messages are stored for absent subscribers: a process
// that ends has lost what it had received and not handled.
//
// So acks mean nothing. Ack does nothing, but call it: the Go CDK complains of messages
// that were not acked. There is no redelivery, so messages cannot be nacked: Nackable
// returns false, and Nack panics. Code that shall run on several services, some of them at
// most once, asks Nackable first.
//
// Send returns when a message is on its way, or leaves within pubsub.Config.FlushAfter. One
// that its context ends may have sent its message all the same, or will: the Go CDK sends
// in the background, until Shutdown.
// Shutdown of a topic waits until subscribers have what was sent. The Go CDK sends messages
// of several goroutines in no order; where order matters, Send from one.
//
// The Go CDK receives ahead, by up to some seconds of messages. What it has received delays no
// publisher; a subscription that is not read at all blocks publishers soon after, until
// a limit (pubsub.Config.StallLimit) or as SubscriptionOptions.Options say.
//
// # On the wire
//
// A message is an envelope (package github.com/fanfaremq/fanfare/contrib/envelope): its
// headers are the message's metadata, and its body is the message's. What was published
// without one is an error in its place, unless SubscriptionOptions.Raw is set. The adapter
// for Watermill writes the same envelope, with the header _watermill_message_uuid.
//
// # As
//
//   - Topic: *pubsub.Publisher
//   - Subscription: *pubsub.Subscription
//   - Message: pubsub.Message, of a received one, without its data
//   - Error: *events.FlowError, *pubsub.GapError, *pubsub.StateError, *events.EvictedError,
//     *pubsub.TopicError, *events.TopicCollisionError, *events.PublisherRefusedError,
//     *events.ConfigMismatchError, *pubsub.URLError
//
// all of them of Fanfare's packages pubsub and pubsub/events.
package fanfarepubsub
