package pubsub

import "github.com/fanfaremq/fanfare/internal/slow"

// SlowPolicy says what happens when a subscription reads too slowly.
type SlowPolicy int

const (
	// SlowAuto, the default: SlowBlock towards publishers that wait for their
	// subscribers, SlowGap towards those that do not.
	SlowAuto = SlowPolicy(slow.Auto)
	// SlowBlock holds publishers up, as far as their flow control lets it, and with them the neighbours on the same bus.
	SlowBlock = SlowPolicy(slow.Block)
	// SlowGap loses what is not read in time, the oldest first: a *GapError with
	// CauseSlowConsumer. No publisher is held up, as with all policies below.
	SlowGap = SlowPolicy(slow.Gap)
	// SlowLatest goes to the newest packet of a publisher when it is more than MaxBehind packets behind: a *GapError with
	// CauseSlowConsumer says how many messages of which topic were left out.
	SlowLatest = SlowPolicy(slow.Latest)
	// SlowEvict ends the subscription when it is more than MaxBehind packets behind a publisher, with an *EvictedError.
	SlowEvict = SlowPolicy(slow.Evict)
)

// SlowConsumer sets what happens when the subscription reads too slowly. A handler with
// SlowAuto or SlowBlock is called by the bus, has everything and holds up those that wait
// for their subscribers; with another policy it has a goroutine of its own.
func SlowConsumer(p SlowPolicy) SubscribeOption {
	return func(o *subscribeOptions) { o.slow.kind = p }
}

// MaxBehind sets how many packets of one publisher SlowLatest and SlowEvict let the subscription fall behind,
// SubscriptionPublisher.Lag. Default, and most, is half of the packets that Config.ReceiveWindowBytes holds: the other
// half is for packets that arrive before the reader reacts.
func MaxBehind(packets int) SubscribeOption {
	return func(o *subscribeOptions) { o.slow.behind, o.slow.isSet = packets, true }
}
