package fanfarepubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"gocloud.dev/gcerrors"
	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/batcher"
	"gocloud.dev/pubsub/driver"

	"github.com/fanfaremq/fanfare/contrib/envelope"
	fanfare "github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// SubscriptionOptions hold what may be configured of a subscription. The zero value is good.
type SubscriptionOptions struct {
	// Options are Fanfare's: where the subscription begins (pubsub.From), what happens
	// when it reads too slowly (pubsub.SlowConsumer), and others.
	Options []fanfare.SubscribeOption
	// Raw takes each message as a body: for messages published without an envelope.
	Raw bool
	// OnError gets what stands in the stream in place of a message, such as a *pubsub.GapError where messages were lost
	// permanently, and a *MessageError for a message that is no envelope. It is called by a goroutine of the Go CDK, one
	// call at a time. The subscription fails with the error that it returns, and continues with nil. Default: the error is
	// logged, and the subscription continues.
	OnError func(err error) error
	// Logger is where the default of OnError writes to. Default: slog.Default().
	Logger *slog.Logger
	// Batcher is how the Go CDK asks for messages. One call at a time reads, whatever it says.
	Batcher batcher.Options
}

// MessageError says that a message was left out, because it is no envelope.
type MessageError struct {
	Topic     string
	Number    uint64 // within topic, publisher and epoch
	Publisher fanfare.PublisherID
	Epoch     uint64
	Err       error // of envelope.Parse
}

func (e *MessageError) Error() string {
	return fmt.Sprintf("message %d of %q by publisher %v cannot be read: %v", e.Number, e.Topic, e.Publisher, e.Err)
}

// Unwrap returns the error of envelope.Parse.
func (e *MessageError) Unwrap() error { return e.Err }

// OpenSubscription returns a subscription of the bus to a topic, or to all that match a
// pattern. What is published from its return on comes, unless the options say more.
func OpenSubscription(bus *fanfare.Bus, topic string, options *SubscriptionOptions) (*pubsub.Subscription, error) {
	s, err := openSubscription(bus, topic, options)
	if err != nil {
		return nil, err
	}
	return pubsub.NewSubscription(s, &s.options.Batcher, nil), nil
}

// Batches of ReceiveBatch.
const (
	maxBatch = 1000            // messages, so that one batch does not take all memory
	maxWait  = 1 * time.Second // for the first one; the Go CDK asks again
)

// subscription is a driver.Subscription. A nil one is a subscription of no bus.
type subscription struct {
	sub     *fanfare.Subscription
	options SubscriptionOptions
	closed  func() // when the subscription is

	reading chan struct{}     // holds one: the goroutine that takes it reads
	batch   []fanfare.Message // of the goroutine that reads
	failed  error             // of the goroutine that reads: OnError has returned it, behind messages that went first
}

var _ driver.Subscription = (*subscription)(nil)

func openSubscription(bus *fanfare.Bus, topic string, options *SubscriptionOptions) (*subscription, error) {
	s := &subscription{reading: make(chan struct{}, 1), batch: make([]fanfare.Message, maxBatch)}
	s.reading <- struct{}{}
	if options != nil {
		s.options = *options
	}
	if bus == nil {
		return nil, errors.New("fanfarepubsub: OpenSubscription without a bus")
	}
	if s.options.Logger == nil {
		s.options.Logger = slog.Default()
	}
	if s.options.OnError == nil {
		s.options.OnError = func(err error) error {
			s.options.Logger.Warn("There is something in place of a message", "topic", topic, "err", err)
			return nil
		}
	}
	var err error
	if s.sub, err = bus.Subscribe(topic, s.options.Options...); err != nil {
		return nil, fmt.Errorf("fanfarepubsub: cannot subscribe to %q: %w", topic, err)
	}
	return s, nil
}

// ReceiveBatch waits for a message, a second at most, and returns it with those that came in the same packet.
func (s *subscription) ReceiveBatch(ctx context.Context, most int) ([]*driver.Message, error) {
	if s == nil {
		return nil, errNoBus
	}
	wait, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	select {
	case <-s.reading:
		defer func() { s.reading <- struct{}{} }()
	case <-wait.Done():
		return nil, ctx.Err()
	}
	if s.failed != nil {
		return nil, s.failed
	}
	n, err := s.sub.NextBatch(wait, s.batch[:min(most, maxBatch)])
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case wait.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return nil, nil
	case final(err):
		return nil, err
	default:
		s.failed = s.options.OnError(err)
	}
	out := s.messages(s.batch[:n])
	if len(out) == 0 {
		return nil, s.failed
	}
	return out, nil
}

// final reports whether an error of NextBatch ends the subscription; others stand in its stream, which goes on.
func final(err error) bool {
	var event *fanfare.PublisherEvent
	return !errors.Is(err, fanfare.ErrGap) && !errors.Is(err, fanfare.ErrNoState) &&
		!errors.Is(err, events.ErrTopicCollision) && !errors.Is(err, events.ErrPublisherRefused) && !errors.As(err, &event)
}

// messages makes the Go CDK's messages of a batch, as far as OnError lets it. They own their bytes.
func (s *subscription) messages(batch []fanfare.Message) (out []*driver.Message) {
	for _, in := range batch {
		if in.IsStateEnd() {
			continue // it has no bytes: what follows is live
		}
		m, err := s.message(in)
		if err == nil {
			out = append(out, m)
		} else if s.failed = s.options.OnError(err); s.failed != nil {
			break
		}
	}
	return out
}

func (s *subscription) message(in fanfare.Message) (*driver.Message, error) {
	headers, body := map[string]string(nil), in.Data
	if !s.options.Raw {
		var err error
		if headers, body, err = envelope.Parse(in.Data); err != nil {
			return nil, &MessageError{Topic: in.Topic, Number: in.Number, Publisher: in.Publisher(), Epoch: in.Epoch(), Err: err}
		}
	}
	in.Data = nil
	return &driver.Message{
		LoggableID: fmt.Sprintf("%s #%d of %v", in.Topic, in.Number, in.Publisher()),
		Body:       bytes.Clone(body),
		Metadata:   headers,
		AckID:      struct{}{},
		AsFunc: func(i any) bool {
			p, ok := i.(*fanfare.Message)
			if ok {
				*p = in
			}
			return ok
		},
	}, nil
}

// SendAcks does nothing.
func (s *subscription) SendAcks(context.Context, []driver.AckID) error { return nil }

// CanNack is false: there is no redelivery.
func (s *subscription) CanNack() bool { return false }

// SendNacks is never called.
func (s *subscription) SendNacks(context.Context, []driver.AckID) error {
	return errors.ErrUnsupported
}

// IsRetryable is false: what can be waited for was.
func (s *subscription) IsRetryable(error) bool { return false }

// As gives the *fanfare/pubsub.Subscription.
func (s *subscription) As(i any) bool {
	p, ok := i.(**fanfare.Subscription)
	if ok && s != nil {
		*p = s.sub
	}
	return ok && s != nil
}

// ErrorAs gives Fanfare's own error.
func (s *subscription) ErrorAs(err error, i any) bool { return errorAs(err, i) }

// ErrorCode sorts an error.
func (s *subscription) ErrorCode(err error) gcerrors.ErrorCode { return errorCode(err) }

// Close ends the subscription.
func (s *subscription) Close() error {
	if s == nil {
		return nil
	}
	if s.closed != nil {
		defer s.closed()
	}
	return s.sub.Close()
}
