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

// feed delivers the messages of one subscription to its channel. It is used by the goroutine of run only.
type feed struct {
	config *SubscriberConfig
	topic  string // topic or pattern of the subscription
	sub    *pubsub.Subscription
	logger watermill.LoggerAdapter
	out    chan *message.Message
}

// run delivers messages one by one until ctx ends, the subscription fails, or OnError returns an error.
func (f *feed) run(ctx context.Context) {
	defer close(f.out)
	defer f.sub.Close()
	for {
		in, err := f.sub.Next(ctx)
		switch {
		case err == nil:
			err = f.deliver(ctx, in)
		case ctx.Err() != nil:
			return
		case final(err):
			f.logger.Error("subscription ended", err, nil)
			f.config.OnError(f.topic, err)
			return
		}
		if err != nil && f.report(err) != nil {
			return
		}
	}
}

// final reports whether an error of Next ends the subscription. After other errors it continues.
func final(err error) bool {
	var event *pubsub.PublisherEvent
	return !errors.Is(err, pubsub.ErrGap) && !errors.Is(err, pubsub.ErrNoState) &&
		!errors.Is(err, events.ErrTopicCollision) && !errors.Is(err, events.ErrPublisherRefused) && !errors.As(err, &event)
}

// report logs an error of the stream, and calls OnError, which decides whether to continue.
func (f *feed) report(err error) error {
	var event *pubsub.PublisherEvent
	if errors.As(err, &event) {
		f.logger.Info(err.Error(), nil)
	} else {
		f.logger.Error("error in the stream", err, nil)
	}
	ended := f.config.OnError(f.topic, err)
	if ended != nil {
		f.logger.Error("OnError ended the subscription", ended, nil)
	}
	return ended
}

// deliver converts a received message and delivers it until it is acked. Its error is an *UnmarshalError.
func (f *feed) deliver(ctx context.Context, in pubsub.Message) error {
	if in.IsStateEnd() {
		return nil // an empty message before the first live one
	}
	msg, err := f.config.Unmarshaler.Unmarshal(in)
	if err != nil {
		return &UnmarshalError{Topic: in.Topic, Number: in.Number, Publisher: in.Publisher(), Epoch: in.Epoch(), Err: err}
	}
	in.Data = nil // valid only until the next message
	ctx = context.WithValue(ctx, origin{}, in)
	for !f.deliverOnce(ctx, msg) {
		f.logger.Debug("message nacked, delivering it again", watermill.LogFields{"message_uuid": msg.UUID})
		if f.config.NackDelay > 0 {
			select {
			case <-time.After(f.config.NackDelay):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// deliverOnce delivers a copy of the message, with an ack of its own. It reports whether the
// delivery is finished: the message was acked, or ctx has ended.
func (f *feed) deliverOnce(ctx context.Context, msg *message.Message) (done bool) {
	if ctx.Err() != nil {
		return true
	}
	delivered := msg.Copy()
	own, cancel := context.WithCancel(ctx) // canceled by the ack
	defer cancel()
	delivered.SetContext(own)
	select {
	case f.out <- delivered:
	case <-ctx.Done():
		return true
	}
	select {
	case <-delivered.Acked():
		return true
	case <-delivered.Nacked():
		return false
	case <-ctx.Done():
		return true
	}
}

// origin is the context key of a message's pubsub.Message.
type origin struct{}

// MessageFromCtx returns the pubsub.Message from the context of a message that a Subscriber delivered:
// topic, publisher, epoch and number, without data. It can be responded to (pubsub.Message.Respond).
func MessageFromCtx(ctx context.Context) (in pubsub.Message, ok bool) {
	in, ok = ctx.Value(origin{}).(pubsub.Message)
	return in, ok
}
