package pubsub

import (
	"context"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// Default limits of Conflate: several times what a subscription to all symbols of an exchange needs.
const (
	DefaultConflateKeys  = 100_000
	DefaultConflateBytes = 64 << 20
)

// Conflate delivers only the newest message of each topic and key: a message that waits to be read is replaced when a
// newer one of its topic and key arrives, and is counted in stats.Subscription.Replaced. A slow reader holds up no
// publisher and still receives the last value of every key. If key is nil, each topic is one key.
//
// Messages are delivered in the order in which their topic and key began to wait. With From(State) records of state are
// conflated like messages: a key has its record of state or a later message; if key is nil, a topic has its last
// record. A gap, the end of a state, or a *PublisherEvent is delivered after all messages that waited when it happened;
// messages that arrive later may replace those. Every message is delivered, counted as replaced, or in a gap.
//
// The subscription has its own goroutine, which reads the stream, calls key with each message, and keeps a copy of
// the newest. key must not block and must not change the message. Its result may be a part of Data: it is used only
// until the next call. A call that takes seconds is reported by the log and events.HandlerSlow. If messages arrive
// faster than this goroutine reads, publishers that wait for their subscribers wait for it.
//
// They do not wait for room within ConflateLimits: when these are reached, and until half is free again, the stream's
// window fills, and messages beyond it are a *GapError with CauseSlowConsumer. Values of keys may then be missing
// until the key's next message. The same holds for publishers that do not wait for subscribers. With
// SlowConsumer(SlowBlock) publishers wait for room, too; with SlowConsumer(SlowGap) they never wait.
func Conflate(key func(Message) []byte) SubscribeOption {
	return func(o *subscribeOptions) { o.slow.conflates, o.slow.key = true, key }
}

// ConflateLimits bounds what Conflate keeps: the number of waiting topics and keys, gaps and events included, and the
// bytes of their keys and messages. Each takes about 200 bytes in addition. Default DefaultConflateKeys and
// DefaultConflateBytes. One message is kept whatever its size.
func ConflateLimits(keys, bytes int) SubscribeOption {
	return func(o *subscribeOptions) {
		o.slow.limits, o.slow.limited = slow.Limits{Keys: keys, Bytes: bytes}, true
	}
}

// conflationKey adapts key for the engine, which adds the topic.
func (o *slowOptions) conflationKey() engine.ConflationKey {
	key := o.key
	return func(buf []byte, from *reliable.Origin, t *topics.Track, number uint64, data []byte) []byte {
		if key == nil {
			return buf
		}
		return append(buf, key(message(from, t, number, data))...)
	}
}

// newestBatch is NextBatch of a subscription with Conflate.
func (s *Subscription) newestBatch(ctx context.Context, msgs []Message) (int, error) {
	n := 1
	err := s.newest.NextBatch(ctx, &s.d, len(msgs)-1, func(d engine.Delivery) {
		msgs[n] = message(d.From, d.Topic, d.Number, d.Data) // or a record of state, see Message.IsState
		n++
	})
	if err != nil {
		return 0, s.failed("read", err)
	}
	if msgs[0], err = public(&s.d); err != nil {
		return 0, err
	}
	return n, nil
}
