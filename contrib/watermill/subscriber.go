package fanfare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// SubscriberConfig configures a Subscriber. The zero value is usable.
type SubscriberConfig struct {
	// Unmarshaler converts received messages to Watermill's. Default Envelope.
	Unmarshaler Unmarshaler
	// Options apply to every subscription: where it begins (pubsub.From), what happens if it reads too
	// slowly (pubsub.SlowConsumer), and others.
	Options []pubsub.SubscribeOption
	// NackDelay is the delay before a nacked message is delivered again. Default 0. Watermill's
	// middleware Retry has a delay of its own.
	NackDelay time.Duration
	// OnError is called with errors in the stream, such as a *pubsub.GapError if messages were lost permanently, and an
	// *UnmarshalError for a message that Unmarshaler rejects. The subscription's goroutine calls it. An error that it
	// returns ends the subscription and closes its channel. It is also called with the error that ended a subscription;
	// its result is ignored then. Default: the subscription continues. All errors are logged in either case.
	OnError func(topic string, err error) error
	// Logger receives errors and publisher events. Default: watermill.NopLogger.
	Logger watermill.LoggerAdapter
}

// UnmarshalError reports a message that was skipped because the Unmarshaler rejects it.
type UnmarshalError struct {
	Topic     string
	Number    uint64 // within topic, publisher and epoch
	Publisher pubsub.PublisherID
	Epoch     events.ID
	Err       error // error of the Unmarshaler
}

func (e *UnmarshalError) Error() string {
	return fmt.Sprintf("message %d of %q by publisher %v skipped: %v", e.Number, e.Topic, e.Publisher, e.Err)
}

// Unwrap returns the Unmarshaler's error.
func (e *UnmarshalError) Unwrap() error { return e.Err }

// Subscriber is a message.Subscriber. It is safe for concurrent use.
type Subscriber struct {
	bus    *pubsub.Bus
	config SubscriberConfig
	ended  context.Context
	end    context.CancelFunc
	feeds  sync.WaitGroup // goroutines of subscriptions; Add under mu, while not closed

	mu     sync.Mutex
	closed bool // guarded by mu
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a subscriber on the bus, which the caller closes after it.
func NewSubscriber(bus *pubsub.Bus, config SubscriberConfig) (*Subscriber, error) {
	switch {
	case bus == nil:
		return nil, errors.New("fanfare: NewSubscriber without a bus")
	case config.NackDelay < 0:
		return nil, fmt.Errorf("fanfare: SubscriberConfig.NackDelay is %v, must not be negative", config.NackDelay)
	}
	if config.Unmarshaler == nil {
		config.Unmarshaler = Envelope{}
	}
	if config.Logger == nil {
		config.Logger = watermill.NopLogger{}
	}
	if config.OnError == nil {
		config.OnError = func(string, error) error { return nil }
	}
	s := &Subscriber{bus: bus, config: config}
	s.ended, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Subscribe returns a channel of the messages of the topic, or of all topics that match a pattern. It receives what is
// published after its return, unless SubscriberConfig.Options request earlier messages. The channel is closed when ctx
// ends, by Close, and when the subscription fails; its goroutine has ended then. After Close the error matches
// net.ErrClosed.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("fanfare: cannot subscribe to %q: the subscriber is closed: %w", topic, net.ErrClosed)
	}
	sub, err := s.bus.Subscribe(topic, s.config.Options...)
	if err != nil {
		return nil, fmt.Errorf("fanfare: cannot subscribe to %q: %w", topic, err)
	}
	f := &feed{
		config: &s.config,
		topic:  topic,
		sub:    sub,
		logger: s.config.Logger.With(watermill.LogFields{"topic": topic}),
		out:    make(chan *message.Message),
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ended, cancel)
	s.feeds.Go(func() {
		defer cancel()
		defer stop()
		f.run(ctx)
	})
	return f.out, nil
}

// Close ends all subscriptions: when it returns their channels are closed. A delivered message may
// still be acked, without effect. It is idempotent.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.feeds.Wait()
	return nil
}
