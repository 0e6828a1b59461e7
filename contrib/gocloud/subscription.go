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

// SubscriptionOptions configures a subscription. The zero value is usable.
type SubscriptionOptions struct {
	// Options are subscribe options of Fanfare: where the subscription begins (pubsub.From), what
	// happens if it reads too slowly (pubsub.SlowConsumer), and others.
	Options []fanfare.SubscribeOption
	// Raw uses each message as a body, for messages published without an envelope.
	Raw bool
	// OnError is called with errors in the stream, such as a *pubsub.GapError if messages were lost permanently, and a
	// *MessageError for a message without an envelope. A goroutine of the Go CDK calls it, one call at a time. The
	// subscription fails with the error that it returns, and continues with nil. Default: log the error and continue.
	OnError func(err error) error
	// Logger receives the errors that the default OnError logs. Default: slog.Default().
	Logger *slog.Logger
	// Batcher configures how the Go CDK requests messages. Only one call reads at a time, whatever it is set to.
	Batcher batcher.Options
}

// MessageError reports a message that was skipped because it has no valid envelope.
type MessageError struct {
	Topic     string
	Number    uint64 // within topic, publisher and epoch
	Publisher fanfare.PublisherID
	Epoch     events.ID
	Err       error // of envelope.Parse
}

func (e *MessageError) Error() string {
	return fmt.Sprintf("message %d of %q by publisher %v skipped: %v", e.Number, e.Topic, e.Publisher, e.Err)
}

// Unwrap returns the error of envelope.Parse.
func (e *MessageError) Unwrap() error { return e.Err }

// OpenSubscription subscribes the bus to a topic, or to all topics that match a pattern. It
// receives what is published after its return, unless the options request earlier messages.
func OpenSubscription(bus *fanfare.Bus, topic string, options *SubscriptionOptions) (*pubsub.Subscription, error) {
	s, err := openSubscription(bus, topic, options)
	if err != nil {
		return nil, err
	}
	return pubsub.NewSubscription(s, &s.options.Batcher, nil), nil
}

// Limits of ReceiveBatch.
const (
	maxBatch = 1000            // messages per batch, which bounds its memory
	maxWait  = 1 * time.Second // for the first message; the Go CDK calls again
)

// subscription is a driver.Subscription. A nil one has no bus.
type subscription struct {
	sub     *fanfare.Subscription
	options SubscriptionOptions
	closed  func() // called by Close

	reading chan struct{}     // a semaphore of one: only its holder reads
	batch   []fanfare.Message // used by the holder of reading
	failed  error             // guarded by reading: returned by OnError, after messages that precede it
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
			s.options.Logger.Warn("error in the stream", "topic", topic, "err", err)
			return nil
		}
	}
	var err error
	if s.sub, err = bus.Subscribe(topic, s.options.Options...); err != nil {
		return nil, fmt.Errorf("fanfarepubsub: cannot subscribe to %q: %w", topic, err)
	}
	return s, nil
}

// ReceiveBatch waits for a message, at limit a second, and returns it with others of the same packet.
func (s *subscription) ReceiveBatch(ctx context.Context, limit int) ([]*driver.Message, error) {
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
	n, err := s.sub.NextBatch(wait, s.batch[:min(limit, maxBatch)])
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

// final reports whether an error of NextBatch ends the subscription. After other errors it continues.
func final(err error) bool {
	var event *fanfare.PublisherEvent
	return !errors.Is(err, fanfare.ErrGap) && !errors.Is(err, fanfare.ErrNoState) &&
		!errors.Is(err, events.ErrTopicCollision) && !errors.Is(err, events.ErrPublisherRefused) && !errors.As(err, &event)
}

// messages converts a batch until OnError returns an error. The results own their bytes.
func (s *subscription) messages(batch []fanfare.Message) (out []*driver.Message) {
	for _, in := range batch {
		if in.IsStateEnd() {
			continue // an empty message before the first live one
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

// CanNack returns false: there is no redelivery.
func (s *subscription) CanNack() bool { return false }

// SendNacks is never called.
func (s *subscription) SendNacks(context.Context, []driver.AckID) error {
	return errors.ErrUnsupported
}

// IsRetryable returns false: calls have already waited as long as they may.
func (s *subscription) IsRetryable(error) bool { return false }

// As returns the *fanfare/pubsub.Subscription.
func (s *subscription) As(i any) bool {
	p, ok := i.(**fanfare.Subscription)
	if ok && s != nil {
		*p = s.sub
	}
	return ok && s != nil
}

// ErrorAs returns the error of Fanfare.
func (s *subscription) ErrorAs(err error, i any) bool { return errorAs(err, i) }

// ErrorCode returns the code of an error.
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
