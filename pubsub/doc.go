// Package pubsub is reliable multicast publish/subscribe: one Publish, one
// datagram on the wire, every subscriber served by the network.
//
//	bus, err := pubsub.Open(ctx, "udp://239.20.0.0/16?iface=eth0")
//	pub, err := bus.Publisher("md.xnas.AAPL")
//	err = pub.Publish(ctx, payload)
//
//	sub, err := bus.Subscribe("md.xnas.AAPL")
//	for msg, err := range sub.Messages(ctx) { … }
//
// # Guarantees
//
// A publisher's messages on one topic arrive at every subscription of that topic in the order they were published,
// each once. Beyond that, all messages that one bus publishes on topics that map to one group arrive in one order.
// Messages of different publishers, or of different groups, have no order between them.
//
// Losses on the way are repaired. Losses that cannot be repaired are never silent: a *GapError in the subscription's
// stream, at its position in the order, names topic, first message and count; then the stream continues. A lost
// packet is requested until the recovery deadline (Config.RecoveryDeadline, 2 s), or until the publisher reports that
// it no longer has it.
//
// A subscription begins live: with the first packet of a publisher that arrives after its group was joined.
// Publisher.WaitSubscribers lets a publisher wait for that. Without it a subscriber that joins mid-stream may start
// with a gap: a publisher does not wait for a subscriber that it does not know yet.
//
// # Patterns
//
// Subscribe accepts patterns, too: the token * stands for any one token of a topic, and >, as the last, for one or
// more. "md.*.AAPL" and "md.>" deliver every matching topic, also those created later. See Bus.Subscribe.
//
// # Flow control
//
// With FlowMin, the default, a publisher never outruns the window of the slowest subscriber that is present: Publish
// waits, TryPublish returns ErrBackPressure. A subscription that reads too slowly thus holds up its publishers and
// the other subscriptions of its bus (SlowConsumer changes that). Publishers wait for a subscriber that died until
// they have solicited it ten times and Config.Silence has passed. Without subscribers publishers do not wait.
//
// No stall is silent. A subscriber that is alive but does not read is reported by its Config.Name or host and process,
// its address, for how long it has blocked the publisher and how far behind it is: after a second in the log and by
// events.PublisherStalled; in the *FlowError of a Publish whose context ends; in Publisher.Receivers. Its own bus
// reports it, too, with the topics that are not read (events.HoldsPublishersUp, events.SubscriptionNotRead). After
// Config.StallLimit, 30 s, it is released. The publisher continues, and messages that the subscriber can no longer
// fetch when it resumes reading are a *GapError of CauseReleased. Then publishers wait for it again. A subscriber that
// keeps making progress but stays more than Config.SlowBehind packets behind is also released (events.SlowSubscriber).
//
// If nothing can be sent, because the interface is down or no key is valid, publishers wait
// when there is no more room, with every kind of flow control (events.CannotSend).
//
// A bus that detects no peer reports it once as a hint, after 5 s, with its network interface or its directory of
// shared memory: no subscriber of its topics (events.NoSubscriberHeard), or no publisher of its subscriptions
// (events.NoPublisherHeard).
//
// With FlowQuorum(n) a publisher waits for its n fastest subscribers, with FlowMax for the fastest, with FlowNone for
// none: then limit its Rate to what subscribers can receive. FlowTagged("book") waits only for subscribers whose bus
// has that Config.Tag, and FlowQuorum(2).Tagged("book") for the two fastest of them. Subscribers that publishers do
// not wait for have gaps when they fall out of the window. Publisher.Delivered is the number of messages that those
// it waits for have received.
//
// # Slow readers
//
// The option SlowConsumer sets what happens to a subscription that reads too slowly. SlowBlock blocks publishers.
// The other policies do not affect publishers and other subscriptions of the bus: SlowGap drops the oldest unread
// messages, SlowLatest skips to the newest packet, and both report the skipped messages in a *GapError; SlowEvict
// ends the subscription with an *EvictedError. Each publisher and group is judged separately. Conflate keeps the
// newest message of each key for a reader that cannot read all.
//
// # Requests
//
// Bus.Request publishes a message that subscribers answer with Message.Respond, and waits for the first reply;
// RequestMany for several, or one of each subscriber. A request is sent like any other message. Replies are sent by
// unicast; a lost reply is sent again from memory, so a subscriber executes a request once.
//
// # Handlers
//
// The goroutine that runs handlers runs the whole bus. A handler that takes more than a second is reported while it
// runs (events.HandlerSlow). Calls that would wait for the bus, such as Subscribe or Close, return ErrInHandler
// there; other goroutines may make them. A handler with SlowGap, SlowLatest, SlowEvict or Conflate has its own
// goroutine instead.
//
// # Limits
//
// Messages have up to 16 MiB. A bus does not receive its own messages (Config.Loopback).
//
// Memory is bounded, and grows as it is used. Publishing takes up to Config.WindowBytes (8 MiB) a group, and
// Config.PublishMemoryBytes (24 MiB) for all groups. The receive windows of a group take up to
// Config.ReceiveMemoryBytes (64 MiB), however many publishers there are, up to Config.MaxPublishers. While a message
// of several packets arrives, each subscription (and all handlers together) keeps its packets: up to
// Config.MaxMessage (16 MiB) for each publisher. Set MaxMessage to the largest message that you expect, to bound the
// memory that many publishers can take. A transport has additional buffers.
package pubsub
