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

// TopicOptions hold what may be configured of a topic. The zero value is good.
type TopicOptions struct {
	// Subscribers is how many buses must subscribe to the topic before the first message is sent: Send waits for them, as
	// long as its context allows. Default 0: a subscriber that comes later has missed what was sent before.
	Subscribers int
	// DrainTimeout is how long Shutdown waits for subscribers to have everything, after what
	// its context allows for calls of Send. Default 5 s; negative: not at all.
	DrainTimeout time.Duration
	// Raw sends bodies as they are, without an envelope, for programs without the Go CDK. Metadata is an error then.
	Raw bool
	// Batcher is how the Go CDK puts messages together. Default: one call at a time.
	Batcher batcher.Options
}

// OpenTopic returns a topic of the bus. The error of a name that is none matches fanfare/pubsub.ErrTopic.
func OpenTopic(bus *fanfare.Bus, name string, options *TopicOptions) (*pubsub.Topic, error) {
	t, err := openTopic(bus, name, options)
	if err != nil {
		return nil, err
	}
	return pubsub.NewTopic(t, &t.options.Batcher), nil
}

// topic is a driver.Topic. A nil one is a topic of no bus.
type topic struct {
	pub     *fanfare.Publisher
	options TopicOptions
	closed  func() // when the topic is

	mu    sync.Mutex
	heard bool // by mu: TopicOptions.Subscribers were there once
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
		return nil, fmt.Errorf("fanfarepubsub: TopicOptions.Subscribers is %d, and must not be negative", t.options.Subscribers)
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
	as := func(any) bool { return false } // there is nothing more of a message
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

// await waits for the subscribers that the first message needs.
func (t *topic) await(ctx context.Context) error {
	if t.options.Subscribers == 0 {
		return nil
	}
	t.mu.Lock()
	heard := t.heard
	t.mu.Unlock()
	if heard {
		return nil
	}
	if err := t.pub.WaitSubscribers(ctx, t.options.Subscribers); err != nil {
		return err
	}
	t.mu.Lock()
	t.heard = true
	t.mu.Unlock()
	return nil
}

// IsRetryable is false: what can be waited for was.
func (*topic) IsRetryable(error) bool { return false }

// As gives the *fanfare/pubsub.Publisher.
func (t *topic) As(i any) bool {
	p, ok := i.(**fanfare.Publisher)
	if ok && t != nil {
		*p = t.pub
	}
	return ok && t != nil
}

// ErrorAs gives Fanfare's own error.
func (*topic) ErrorAs(err error, i any) bool { return errorAs(err, i) }

// ErrorCode sorts an error.
func (*topic) ErrorCode(err error) gcerrors.ErrorCode { return errorCode(err) }

// Close waits for subscribers to have everything. Its error names those that have not.
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
	// Where ctx leaves no time to flush the bus does that within FlushAfter.
	_ = t.pub.Close(ctx)
	if errors.Is(err, net.ErrClosed) { // the bus has been closed, and has drained
		return nil
	}
	return err
}
