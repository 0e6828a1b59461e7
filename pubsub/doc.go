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
// A publisher's messages on one topic arrive at every subscription of that topic in the order they were published, each
// once. More: all messages that one bus publishes on topics that map to one group arrive in one order. Messages of
// different publishers, or of different groups, have no order between them.
//
// Losses on the way are repaired. What cannot be repaired is never silent: it is a *GapError in the subscription's
// stream, at its position in the order, that names topic, first message and count; then the stream goes on. A packet is
// asked for until the recovery deadline (Config.RecoveryDeadline, 2 s), or until the publisher says that it has it no
// more.
//
// A subscription begins live: with the first packet of a publisher that is heard after its group was joined.
// Publisher.WaitSubscribers lets a publisher wait for that. Without it a subscriber that joins mid-stream may start
// with a gap: a publisher without subscribers runs free, and has to hear of this one first.
//
// # Patterns
//
// Subscribe takes patterns, too: the token * stands for any one token of a topic, and >, as the last, for one or more.
// "md.*.AAPL" and "md.>" are every topic that matches, also those that come up later. See Bus.Subscribe.
//
// # Flow control
//
// With FlowMin, the default, a publisher never outruns the window of the slowest subscriber that is present: Publish
// waits, TryPublish says so with ErrBackPressure. A subscription that reads too slowly thus holds its publishers up,
// and its neighbours on the same bus with them (SlowConsumer says otherwise). A subscriber that dies is waited for
// until it was asked ten times and Config.Silence has passed. With no subscriber the publisher runs free.
//
// No stall is silent. A subscriber that is there and does not read is named, by its Config.Name or host and process,
// its address, for how long it has held the publisher up and how far behind it is: after a second in the log and by
// events.PublisherStalled; in the *FlowError of a Publish whose context ends; in Publisher.Receivers. Its own bus says
// so, too, with the topics that are not read (events.HoldsPublishersUp, events.SubscriptionNotRead). After
// Config.StallLimit, 30 s, it is let go: the publisher goes on, and what it cannot catch up with when it reads on is a
// *GapError of CauseReleased. Then it counts again. A subscriber that keeps making progress but stays more than
// Config.SlowBehind packets behind is also released (events.SlowSubscriber).
//
// If nothing can be sent, because the interface is down or no key is valid, publishers wait
// when there is no more room, with every kind of flow control (events.CannotSend).
//
// A bus that detects no peer logs it once as a hint, after 5 s, with its network interface or its directory of shared
// memory: no subscriber of its topics (events.NoSubscriberHeard), or no publisher of its subscriptions
// (events.NoPublisherHeard).
//
// With FlowQuorum(n) a publisher waits for its n fastest subscribers, with FlowMax for the fastest, with FlowNone for
// none: limit its Rate then to what subscribers can take. FlowTagged("book") looks only at subscribers whose bus has
// that Config.Tag, and FlowQuorum(2).Tagged("book") at the two fastest of them. A subscriber that is not waited for has
// gaps when it falls out of the window. Publisher.Delivered says how far those that are waited for have come.
//
// # Slow readers
//
// What happens to a subscription that reads too slowly is its own choice, by SlowConsumer. SlowBlock holds publishers
// up. With the others publishers and the neighbours on the bus feel nothing of it: SlowGap loses the oldest of what is
// not read, SlowLatest goes to the newest packet, and both say in a *GapError what was left out; SlowEvict ends the
// subscription with an *EvictedError. Each publisher and group counts by itself. Conflate keeps the newest message of
// each key for a reader that cannot have all.
//
// # Requests
//
// Bus.Request publishes a message that subscribers answer with Message.Respond, and waits for the first reply;
// RequestMany for several, or one of each subscriber. A request is a message like any other on its way there. Replies
// come by unicast; one that is lost is sent again from memory, so a subscriber executes a request once.
//
// # Handlers
//
// The goroutine that runs handlers runs the whole bus. A handler that takes more than a second is named while it runs
// (events.HandlerSlow). What would wait for the bus, such as Subscribe or Close, returns ErrInHandler there; other
// goroutines may call it. A handler with SlowGap, SlowLatest, SlowEvict or Conflate has a goroutine of its own instead.
//
// # Limits
//
// Messages have up to 16 MiB. A bus hears nothing of what it publishes itself.
//
// Memory is bounded, and grows as it is used. Publishing takes up to Config.WindowBytes (8 MiB) a group, and
// Config.PublishMemoryBytes (24 MiB) for all groups. The receive windows of a group take up to
// Config.ReceiveMemoryBytes (64 MiB), however many publishers there are, up to Config.MaxPublishers. While a
// message of several packets comes in, each subscription (and all handlers together) keeps what has come of it: up
// to Config.MaxMessage (16 MiB) a publisher, which bounds what 64 publishers of the largest messages can take; set
// MaxMessage to what you expect. A transport has buffers of its own.
package pubsub
