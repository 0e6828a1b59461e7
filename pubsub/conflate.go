package pubsub

import (
	"context"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// Limits of Conflate by default: what a subscription to all symbols of an exchange needs several times over.
const (
	DefaultConflateKeys  = 100_000
	DefaultConflateBytes = 64 << 20
)

// Conflate delivers the newest message of each topic and key only: one that waits to be read is replaced when a newer
// one of its topic and key comes, and counted in stats.Subscription.Replaced. A slow reader holds up no publisher and
// loses no key: each ends with its last value. Without key each topic is one key.
//
// Messages come in the order in which their topic and key began to wait. With From(State) the records of state are
// messages by their key like others, counted as replaced if a newer one of the key came before they were read: a key
// has its state or a later message, and a topic without key its last record. A gap, the end of a state, or a
// *PublisherEvent comes after all messages that waited when it happened. Until it is read, messages that came after it
// may replace them. Every message is delivered, counted as replaced, or in a gap.
//
// A goroutine of the subscription's own reads the stream, calls key with each message, and keeps a copy of the newest.
// key must not block, nor change the message; what it returns is used until it is called again, so it may be a part of
// Data. One that takes seconds is named in the log and by events.HandlerSlow. Where messages come faster than that
// takes, publishers that wait for their subscribers wait for it, as for any reader that does not dawdle.
//
// They do not wait for room: where more waits than ConflateLimits allow, and until half of that is free again, the
// stream's window fills, and what it cannot hold is a *GapError with CauseSlowConsumer, after which values may be
// missing until their keys come again. So it is with publishers that do not wait for subscribers. With
// SlowConsumer(SlowBlock) they wait for room, too; with SlowConsumer(SlowGap) for nothing.
func Conflate(key func(Message) []byte) SubscribeOption {
	return func(o *subscribeOptions) { o.slow.conflates, o.slow.key = true, key }
}

// ConflateLimits bounds what Conflate keeps: the number of topics and keys that wait, gaps and events among them, and
// the bytes of their keys and messages. Each takes some 200 bytes beside. Default DefaultConflateKeys and
// DefaultConflateBytes. One message is kept whatever its size.
func ConflateLimits(keys, bytes int) SubscribeOption {
	return func(o *subscribeOptions) {
		o.slow.limits, o.slow.limited = slow.Limits{Keys: keys, Bytes: bytes}, true
	}
}

// conflationKey is key for the engine, which adds the topic.
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
		msgs[n] = message(d.From, d.Topic, d.Number, d.Data) // or a record of state, as From says
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
