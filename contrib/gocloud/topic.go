package fanfarepubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"gocloud.dev/gcerrors"
	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/batcher"
	"gocloud.dev/pubsub/driver"

	"github.com/fanfaremq/fanfare/contrib/envelope"
	fanfare "github.com/fanfaremq/fanfare/pubsub"
)

// TopicOptions configures a topic. The zero value is usable.
type TopicOptions struct {
	// Subscribers is the number of buses that must subscribe to the topic before the first message is sent: Send
	// waits for them, as long as its context allows. Default 0: a later subscriber misses what was sent before.
	Subscribers int
	// DrainTimeout is how long Shutdown waits until subscribers have received everything, after the
	// time that its context allows for calls of Send. Default 5 s; negative: no wait.
	DrainTimeout time.Duration
	// Raw sends bodies without an envelope, for programs without the Go CDK. Messages must have no metadata then.
	Raw bool
	// Batcher configures how the Go CDK batches messages. Default: one call at a time.
	Batcher batcher.Options
}

// OpenTopic returns a topic of the bus. For an invalid name the error matches fanfare/pubsub.ErrTopic.
func OpenTopic(bus *fanfare.Bus, name string, options *TopicOptions) (*pubsub.Topic, error) {
	t, err := openTopic(bus, name, options)
	if err != nil {
		return nil, err
	}
	return pubsub.NewTopic(t, &t.options.Batcher), nil
}

// topic is a driver.Topic. A nil one has no bus.
type topic struct {
	pub     *fanfare.Publisher
	options TopicOptions
	closed  func() // called by Close

	mu    sync.Mutex
	ready bool // guarded by mu: TopicOptions.Subscribers have subscribed
}

var _ driver.Topic = (*topic)(nil)

func openTopic(bus *fanfare.Bus, name string, options *TopicOptions) (*topic, error) {
	t := new(topic)
	if options != nil {
		t.options = *options
	}
	switch {
	case bus == nil:
		return nil, errors.New("fanfarepubsub: OpenTopic without a bus")
	case t.options.Subscribers < 0:
		return nil, fmt.Errorf("fanfarepubsub: TopicOptions.Subscribers is %d, must not be negative", t.options.Subscribers)
	}
	if t.options.DrainTimeout == 0 {
		t.options.DrainTimeout = 5 * time.Second
	}
	var err error
	if t.pub, err = bus.Publisher(name); err != nil {
		return nil, fmt.Errorf("fanfarepubsub: cannot open topic %q: %w", name, err)
	}
	return t, nil
}

// SendBatch publishes the messages in order.
func (t *topic) SendBatch(ctx context.Context, messages []*driver.Message) error {
	if t == nil {
		return errNoBus
	}
	for _, m := range messages {
		if err := t.send(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

var errMetadata = errors.New("metadata cannot be sent with TopicOptions.Raw")

func (t *topic) send(ctx context.Context, m *driver.Message) error {
	data := m.Body
	if !t.options.Raw {
		var err error
		if data, err = envelope.Append(nil, m.Metadata, m.Body); err != nil {
			return err
		}
	} else if len(m.Metadata) > 0 {
		return errMetadata
	}
	if err := t.await(ctx); err != nil {
		return err
	}
	as := func(any) bool { return false } // a message has no driver type
	if m.BeforeSend != nil {
		if err := m.BeforeSend(as); err != nil {
			return err
		}
	}
	if err := t.pub.Publish(ctx, data); err != nil {
		return err
	}
	if m.AfterSend != nil {
		return m.AfterSend(as)
	}
	return nil
}

// await waits for the subscribers required before the first message.
func (t *topic) await(ctx context.Context) error {
	if t.options.Subscribers == 0 {
		return nil
	}
	t.mu.Lock()
	ready := t.ready
	t.mu.Unlock()
	if ready {
		return nil
	}
	if err := t.pub.WaitSubscribers(ctx, t.options.Subscribers); err != nil {
		return err
	}
	t.mu.Lock()
	t.ready = true
	t.mu.Unlock()
	return nil
}

// IsRetryable returns false: calls have already waited as long as they may.
func (*topic) IsRetryable(error) bool { return false }

// As returns the *fanfare/pubsub.Publisher.
func (t *topic) As(i any) bool {
	p, ok := i.(**fanfare.Publisher)
	if ok && t != nil {
		*p = t.pub
	}
	return ok && t != nil
}

// ErrorAs returns the error of Fanfare.
func (*topic) ErrorAs(err error, i any) bool { return errorAs(err, i) }

// ErrorCode returns the code of an error.
func (*topic) ErrorCode(err error) gcerrors.ErrorCode { return errorCode(err) }

// Close waits until subscribers have received everything. Its error names those that have not.
func (t *topic) Close() error {
	if t == nil {
		return nil
	}
	if t.closed != nil {
		defer t.closed()
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(t.options.DrainTimeout, 0))
	defer cancel()
	var err error
	if t.options.DrainTimeout > 0 {
		err = t.pub.Drain(ctx)
	}
	// If ctx leaves no time to flush, the bus flushes within FlushAfter.
	_ = t.pub.Close(ctx)
	if errors.Is(err, net.ErrClosed) { // the bus was closed, which has drained the publisher
		return nil
	}
	return err
}
