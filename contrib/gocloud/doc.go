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
// The caller closes the bus after its topics and subscriptions. A bus does not receive its
// own messages unless it is opened with pubsub.Config.Loopback.
//
// # URLs
//
// For pubsub.OpenTopic and pubsub.OpenSubscription of the Go CDK this package registers
// the scheme "fanfare"; the environment variable FANFARE_URL is the URL of the fabric, such
// as udp://239.20.0.0/16?iface=eth0. Topics and subscriptions opened by such URLs share a
// bus with Loopback, which is closed with the last of them. URLOpener uses another bus.
//
//	fanfare://orders.new                   a topic, or a subscription to it
//	fanfare://orders.new?subscribers=1     a topic: the first message waits for a subscriber
//	fanfare://orders.>?from=window         a subscription to a pattern
//
// # At most once
//
// Every subscription gets every message of its topic, those of one publisher in order,
// each once. Lost packets are repaired; if that is impossible the loss is logged and passed to
// SubscriptionOptions.OnError. No messages are stored for absent subscribers: when a
// process ends, messages that it received but did not handle are lost.
//
// So acks have no effect. Call Ack all the same: the Go CDK logs messages that were not
// acked. There is no redelivery, so messages cannot be nacked: Nackable returns false, and
// Nack panics. Code for several services, some of them at most once, must check Nackable
// first.
//
// Send returns when a message is sent, or will be within pubsub.Config.FlushAfter. If its
// context ends, the message may be sent all the same, even later: the Go CDK sends in the
// background, until Shutdown. Shutdown of a topic waits until subscribers have received
// what was sent. The Go CDK does not keep the order of messages sent by several
// goroutines; if order matters, send from one.
//
// The Go CDK prefetches some seconds of messages. Those do not delay publishers; a
// subscription that is never read blocks publishers soon after, up to a limit
// (pubsub.Config.StallLimit) or as SubscriptionOptions.Options specify.
//
// # On the wire
//
// A message is an envelope (package github.com/fanfaremq/fanfare/contrib/envelope): its
// headers are the message's metadata, and its body is the message's. A message without one
// is an error in the stream, unless SubscriptionOptions.Raw is set. The adapter for
// Watermill uses the same envelope, with the header _watermill_message_uuid.
//
// # As
//
//   - Topic: *pubsub.Publisher
//   - Subscription: *pubsub.Subscription
//   - Message: pubsub.Message of a received message, without its data
//   - Error: *events.FlowError, *pubsub.GapError, *pubsub.StateError, *events.EvictedError,
//     *pubsub.TopicError, *events.TopicCollisionError, *events.PublisherRefusedError,
//     *events.ConfigMismatchError, *pubsub.URLError
//
// All are types of Fanfare's packages pubsub and pubsub/events.
package fanfarepubsub
