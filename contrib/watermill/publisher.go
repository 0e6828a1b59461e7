package fanfare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/fanfaremq/fanfare/pubsub"
)

// PublisherConfig configures a Publisher. The zero value is usable.
type PublisherConfig struct {
	// Marshaler encodes messages for publication. Default Envelope.
	Marshaler Marshaler
	// Subscribers is the number of buses that must subscribe to a topic before its first message is
	// published: Publish waits for them, as long as the message's context allows. Default 0: a later
	// subscriber misses what was published before.
	Subscribers int
	// DrainTimeout is how long Close waits until subscribers have received everything. Default 5 s;
	// negative: no wait. Closing the bus waits by itself (pubsub.Config.Linger).
	DrainTimeout time.Duration
}

// Publisher is a message.Publisher. It is safe for concurrent use.
type Publisher struct {
	bus    *pubsub.Bus
	config PublisherConfig
	ended  context.Context // canceled with the cause net.ErrClosed
	end    context.CancelCauseFunc
	close  func() error   // runs shut once
	calls  sync.WaitGroup // calls of Publish; Add under mu, while not closed

	mu     sync.Mutex
	closed bool              // guarded by mu
	topics map[string]*topic // guarded by mu
}

// topic is the state of one topic until Close.
type topic struct {
	*pubsub.Publisher
	mu    sync.Mutex
	ready bool // guarded by mu: PublisherConfig.Subscribers have subscribed
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher on the bus, which the caller closes after it.
func NewPublisher(bus *pubsub.Bus, config PublisherConfig) (*Publisher, error) {
	switch {
	case bus == nil:
		return nil, errors.New("fanfare: NewPublisher without a bus")
	case config.Subscribers < 0:
		return nil, fmt.Errorf("fanfare: PublisherConfig.Subscribers is %d, must not be negative", config.Subscribers)
	}
	if config.Marshaler == nil {
		config.Marshaler = Envelope{}
	}
	if config.DrainTimeout == 0 {
		config.DrainTimeout = 5 * time.Second
	}
	p := &Publisher{bus: bus, config: config, topics: make(map[string]*topic)}
	p.ended, p.end = context.WithCancelCause(context.Background())
	p.close = sync.OnceValue(p.shut)
	return p, nil
}

// Publish publishes the messages in order. It returns when they are sent, or will be within pubsub.Config.FlushAfter.
// If flow control blocks it, it waits as long as the context of the message allows: without limit unless a context was
// set. An error states how many messages were published before it. After Close it matches net.ErrClosed.
func (p *Publisher) Publish(name string, messages ...*message.Message) error {
	t, err := p.begin(name)
	if err != nil {
		return fmt.Errorf("fanfare: cannot publish on %q: %w", name, err)
	}
	defer p.calls.Done()
	for i, msg := range messages {
		if err := p.publish(t, msg); err != nil {
			return fmt.Errorf("fanfare: cannot publish message %s on %q, after %d of %d: %w", msg.UUID, name, i, len(messages), err)
		}
	}
	return nil
}

func (p *Publisher) publish(t *topic, msg *message.Message) error {
	data, err := p.config.Marshaler.Marshal(t.Topic(), msg)
	if err != nil {
		return err
	}
	ctx, cancel := p.until(msg.Context())
	defer cancel()
	if err := p.await(ctx, t); err != nil {
		return err
	}
	return t.Publish(ctx, data)
}

// until returns a context that ends with ctx or with the publisher.
func (p *Publisher) until(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil { // the message has no context of its own
		return p.ended, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ended, func() { cancel(context.Cause(p.ended)) })
	return ctx, func() { stop(); cancel(nil) }
}

// await waits for the subscribers required before the topic's first message.
func (p *Publisher) await(ctx context.Context, t *topic) error {
	if p.config.Subscribers == 0 {
		return nil
	}
	t.mu.Lock()
	ready := t.ready
	t.mu.Unlock()
	if ready {
		return nil
	}
	if err := t.WaitSubscribers(ctx, p.config.Subscribers); err != nil {
		return err
	}
	t.mu.Lock()
	t.ready = true
	t.mu.Unlock()
	return nil
}

// begin returns the topic, and creates its publisher at the first call. It registers a call that Close waits for.
func (p *Publisher) begin(name string) (*topic, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("the publisher is closed: %w", net.ErrClosed)
	}
	t := p.topics[name]
	if t == nil {
		pub, err := p.bus.Publisher(name)
		if err != nil {
			return nil, err
		}
		t = &topic{Publisher: pub}
		p.topics[name] = t
	}
	p.calls.Add(1)
	return t, nil
}

// Close waits for calls of Publish in progress, and until subscribers have received everything, at most
// PublisherConfig.DrainTimeout. Then it ends the publisher; calls that are still blocked return an error that
// matches net.ErrClosed. The error of Close names the topic with subscribers that lack messages, and the
// subscriber that is furthest behind: the bus continues to send until it is closed. It is idempotent.
func (p *Publisher) Close() error { return p.close() }

func (p *Publisher) shut() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), max(p.config.DrainTimeout, 0))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { p.end(net.ErrClosed) })
	p.calls.Wait()
	stop()
	p.end(net.ErrClosed)

	var failed []error
	for name, t := range p.topics { // no longer modified
		if p.config.DrainTimeout > 0 {
			if err := t.Drain(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
				failed = append(failed, fmt.Errorf("fanfare: subscribers of %q do not have everything: %w", name, err))
			}
		}
		// If ctx leaves no time to flush, the bus flushes within FlushAfter.
		_ = t.Publisher.Close(ctx)
	}
	return errors.Join(failed...)
}
