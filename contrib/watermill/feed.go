package fanfare

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// feed moves messages from one subscription into its channel. All of it belongs to the goroutine of run.
type feed struct {
	config *SubscriberConfig
	topic  string // as subscribed to
	sub    *pubsub.Subscription
	logger watermill.LoggerAdapter
	out    chan *message.Message
}

// run gives messages out one by one until ctx ends, the subscription fails or OnError says so.
func (f *feed) run(ctx context.Context) {
	defer close(f.out)
	defer f.sub.Close()
	for {
		in, err := f.sub.Next(ctx)
		switch {
		case err == nil:
			err = f.take(ctx, in)
		case ctx.Err() != nil:
			return
		case final(err):
			f.logger.Error("The subscription has ended", err, nil)
			f.config.OnError(f.topic, err)
			return
		}
		if err != nil && f.report(err) != nil {
			return
		}
	}
}

// final reports whether an error of Next ends the subscription; others stand in its stream, which goes on.
func final(err error) bool {
	var event *pubsub.PublisherEvent
	return !errors.Is(err, pubsub.ErrGap) && !errors.Is(err, pubsub.ErrNoState) &&
		!errors.Is(err, events.ErrTopicCollision) && !errors.Is(err, events.ErrPublisherRefused) && !errors.As(err, &event)
}

// report logs what stands in place of a message, and asks OnError whether to continue.
func (f *feed) report(err error) error {
	var event *pubsub.PublisherEvent
	if errors.As(err, &event) {
		f.logger.Info(err.Error(), nil)
	} else {
		f.logger.Error("There is something in place of a message", err, nil)
	}
	ended := f.config.OnError(f.topic, err)
	if ended != nil {
		f.logger.Error("OnError has ended the subscription", ended, nil)
	}
	return ended
}

// take makes a message of what has come, and gives it out until it is acked. Its error is an *UnmarshalError.
func (f *feed) take(ctx context.Context, in pubsub.Message) error {
	if in.IsStateEnd() {
		return nil // it has no bytes: what follows is live
	}
	msg, err := f.config.Unmarshaler.Unmarshal(in)
	if err != nil {
		return &UnmarshalError{Topic: in.Topic, Number: in.Number, Publisher: in.Publisher(), Epoch: in.Epoch(), Err: err}
	}
	in.Data = nil // it is valid until the next message only
	ctx = context.WithValue(ctx, origin{}, in)
	for !f.give(ctx, msg) {
		f.logger.Debug("A message was nacked and is given out again", watermill.LogFields{"message_uuid": msg.UUID})
		if f.config.NackDelay > 0 {
			select {
			case <-time.After(f.config.NackDelay):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// give gives out a copy of the message, which can be acked by itself. It reports whether
// that is all: the message was acked, or ctx has ended.
func (f *feed) give(ctx context.Context, msg *message.Message) (done bool) {
	if ctx.Err() != nil {
		return true
	}
	given := msg.Copy()
	own, cancel := context.WithCancel(ctx) // ends with the ack
	defer cancel()
	given.SetContext(own)
	select {
	case f.out <- given:
	case <-ctx.Done():
		return true
	}
	select {
	case <-given.Acked():
		return true
	case <-given.Nacked():
		return false
	case <-ctx.Done():
		return true
	}
}

// origin is the key of a message's context under which its pubsub.Message is.
type origin struct{}

// MessageFromCtx returns the pubsub.Message, without its data, of a message that a Subscriber gave out, from its
// context: topic, publisher, epoch and number. It can be responded to (pubsub.Message.Respond).
func MessageFromCtx(ctx context.Context) (in pubsub.Message, ok bool) {
	in, ok = ctx.Value(origin{}).(pubsub.Message)
	return in, ok
}
