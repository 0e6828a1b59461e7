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
)

// SubscriberConfig holds what may be configured of a Subscriber. The zero value is good.
type SubscriberConfig struct {
	// Unmarshaler makes Watermill's messages from those received. Default Envelope.
	Unmarshaler Unmarshaler
	// Options are those of every subscription: where it begins (pubsub.From), what happens
	// when it reads too slowly (pubsub.SlowConsumer), and others.
	Options []pubsub.SubscribeOption
	// NackDelay is how long a message that was nacked waits before it is given out again.
	// Default 0: it is given out at once. Watermill's middleware Retry waits by itself.
	NackDelay time.Duration
	// OnError gets what stands in the stream in place of messages, such as a *pubsub.GapError where messages were lost
	// permanently, and an *UnmarshalError for messages that do not unmarshal. It is called by the subscription's
	// goroutine, and an error that it returns ends the subscription and closes its channel. It also gets the error with
	// which the fabric ended a subscription, and what it returns then means nothing. Default: the subscription continues.
	// All of it is logged either way.
	OnError func(topic string, err error) error
	// Logger gets what an operator should know. Default: watermill.NopLogger.
	Logger watermill.LoggerAdapter
}

// UnmarshalError says that a message was left out, because its bytes are none that the Unmarshaler knows.
type UnmarshalError struct {
	Topic     string
	Number    uint64 // within topic, publisher and epoch
	Publisher pubsub.PublisherID
	Epoch     uint64
	Err       error // the Unmarshaler's
}

func (e *UnmarshalError) Error() string {
	return fmt.Sprintf("message %d of %q by publisher %v cannot be read: %v", e.Number, e.Topic, e.Publisher, e.Err)
}

// Unwrap returns the Unmarshaler's error.
func (e *UnmarshalError) Unwrap() error { return e.Err }

// Subscriber is a message.Subscriber. It is safe for concurrent use.
type Subscriber struct {
	bus    *pubsub.Bus
	config SubscriberConfig
	ended  context.Context
	end    context.CancelFunc
	feeds  sync.WaitGroup // goroutines of subscriptions; Add by mu, while not closed

	mu     sync.Mutex
	closed bool // by mu
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a subscriber on the bus, which the caller closes after it.
func NewSubscriber(bus *pubsub.Bus, config SubscriberConfig) (*Subscriber, error) {
	switch {
	case bus == nil:
		return nil, errors.New("fanfare: NewSubscriber without a bus")
	case config.NackDelay < 0:
		return nil, fmt.Errorf("fanfare: SubscriberConfig.NackDelay is %v, and must not be negative", config.NackDelay)
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

// Subscribe returns a channel of the messages of the topic, or of all topics that match a pattern. What is published
// from its return on comes, unless SubscriberConfig.Options say more. The channel is closed when ctx ends, by Close,
// and when the subscription fails; its goroutine is gone then. After Close the error matches net.ErrClosed.
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

// Close ends all subscriptions: when it returns their channels are closed. A message that
// was given out may still be acked, which means nothing any more. It is idempotent.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.feeds.Wait()
	return nil
}
