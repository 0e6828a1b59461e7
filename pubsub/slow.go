package pubsub

import "github.com/fanfaremq/fanfare/internal/slow"

// SlowPolicy is what happens when a subscription reads too slowly.
type SlowPolicy int

const (
	// SlowAuto, the default: SlowBlock towards publishers that wait for their
	// subscribers, SlowGap towards those that do not.
	SlowAuto = SlowPolicy(slow.Auto)
	// SlowBlock blocks publishers, if their flow control waits for subscribers, and with them the other subscriptions
	// of the bus.
	SlowBlock = SlowPolicy(slow.Block)
	// SlowGap drops messages that are not read in time, the oldest first: a *GapError with CauseSlowConsumer. Neither
	// this policy nor those below block publishers.
	SlowGap = SlowPolicy(slow.Gap)
	// SlowLatest skips to the newest packet of a publisher when it is more than MaxBehind packets behind: a *GapError
	// with CauseSlowConsumer has the topic and the number of messages skipped.
	SlowLatest = SlowPolicy(slow.Latest)
	// SlowEvict ends the subscription when it is more than MaxBehind packets behind a publisher, with an *EvictedError.
	SlowEvict = SlowPolicy(slow.Evict)
)

// SlowConsumer sets what happens when the subscription reads too slowly. A handler with SlowAuto or SlowBlock is
// called by the bus's goroutine, receives everything and holds up publishers that wait for their subscribers; with
// another policy it has its own goroutine.
func SlowConsumer(p SlowPolicy) SubscribeOption {
	return func(o *subscribeOptions) { o.slow.kind = p }
}

// MaxBehind sets how many packets behind one publisher (stats.SubscriptionPublisher.Lag) SlowLatest and SlowEvict
// allow. Default and maximum: half of the packets that Config.ReceiveWindowBytes holds. The other half is for packets
// that arrive before the reader reacts.
func MaxBehind(packets int) SubscribeOption {
	return func(o *subscribeOptions) { o.slow.behind, o.slow.isSet = packets, true }
}
