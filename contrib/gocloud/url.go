package fanfarepubsub

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"strconv"
	"sync"

	"gocloud.dev/pubsub"

	fanfare "github.com/fanfaremq/fanfare/pubsub"
)

// Scheme is the scheme of the URLs that this package registers.
const Scheme = "fanfare"

func init() {
	o := &URLOpener{open: new(sharedBus).acquire}
	pubsub.DefaultURLMux().RegisterTopic(Scheme, o)
	pubsub.DefaultURLMux().RegisterSubscription(Scheme, o)
}

// URLOpener opens URLs such as fanfare://orders.new on a bus. Register it with a pubsub.URLMux of the Go CDK
// to use another bus than that of FANFARE_URL.
//
// The host and path of the URL are the topic, or the pattern of a subscription. Query parameters of topics:
//
//	subscribers=N   TopicOptions.Subscribers
//	raw=true        TopicOptions.Raw
//
// Query parameters of subscriptions:
//
//	from=START      where the subscription begins: live, window or state
//	raw=true        SubscriptionOptions.Raw
type URLOpener struct {
	Bus                 *fanfare.Bus
	TopicOptions        TopicOptions
	SubscriptionOptions SubscriptionOptions

	// open returns the bus if Bus is nil, and a function that releases it.
	open func(context.Context) (*fanfare.Bus, func(), error)
}

// OpenTopicURL opens a topic.
func (o *URLOpener) OpenTopicURL(ctx context.Context, u *url.URL) (*pubsub.Topic, error) {
	options := o.TopicOptions
	for name, values := range u.Query() {
		var err error
		switch value := values[len(values)-1]; name {
		case "subscribers":
			options.Subscribers, err = strconv.Atoi(value)
		case "raw":
			options.Raw, err = strconv.ParseBool(value)
		default:
			return nil, fmt.Errorf("open topic %v: unknown query parameter %q: want subscribers or raw", u, name)
		}
		if err != nil {
			return nil, fmt.Errorf("open topic %v: %s: %w", u, name, err)
		}
	}
	bus, release, err := o.bus(ctx)
	if err != nil {
		return nil, fmt.Errorf("open topic %v: %w", u, err)
	}
	t, err := openTopic(bus, path.Join(u.Host, u.Path), &options)
	if err != nil {
		release()
		return nil, fmt.Errorf("open topic %v: %w", u, err)
	}
	t.closed = release
	return pubsub.NewTopic(t, &t.options.Batcher), nil
}

// OpenSubscriptionURL opens a subscription.
func (o *URLOpener) OpenSubscriptionURL(ctx context.Context, u *url.URL) (*pubsub.Subscription, error) {
	options := o.SubscriptionOptions
	for name, values := range u.Query() {
		var err error
		switch value := values[len(values)-1]; name {
		case "from":
			var start fanfare.Start
			start, err = fanfare.ParseStart(value)
			options.Options = append(options.Options[:len(options.Options):len(options.Options)], fanfare.From(start))
		case "raw":
			options.Raw, err = strconv.ParseBool(value)
		default:
			return nil, fmt.Errorf("open subscription %v: unknown query parameter %q: want from or raw", u, name)
		}
		if err != nil {
			return nil, fmt.Errorf("open subscription %v: %s: %w", u, name, err)
		}
	}
	bus, release, err := o.bus(ctx)
	if err != nil {
		return nil, fmt.Errorf("open subscription %v: %w", u, err)
	}
	s, err := openSubscription(bus, path.Join(u.Host, u.Path), &options)
	if err != nil {
		release()
		return nil, fmt.Errorf("open subscription %v: %w", u, err)
	}
	s.closed = release
	return pubsub.NewSubscription(s, &s.options.Batcher, nil), nil
}

func (o *URLOpener) bus(ctx context.Context) (*fanfare.Bus, func(), error) {
	if o.Bus != nil || o.open == nil {
		return o.Bus, func() {}, nil // openTopic and openSubscription return the error for a nil bus
	}
	return o.open(ctx)
}

// sharedBus is the bus at FANFARE_URL, open while it has users.
type sharedBus struct {
	mu    sync.Mutex
	users int          // guarded by mu
	bus   *fanfare.Bus // guarded by mu, nil without users
}

// acquire opens the bus if it is not open, and returns a function that releases it.
func (s *sharedBus) acquire(ctx context.Context) (*fanfare.Bus, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bus == nil {
		fabric := os.Getenv("FANFARE_URL")
		if fabric == "" {
			return nil, nil, errors.New("FANFARE_URL is not set: it is the URL of the fabric, such as udp://239.20.0.0/16?iface=eth0")
		}
		var err error
		if s.bus, err = (fanfare.Config{Loopback: true}).Open(ctx, fabric); err != nil {
			s.bus = nil
			return nil, nil, fmt.Errorf("FANFARE_URL: %w", err)
		}
	}
	s.users++
	return s.bus, s.release, nil
}

// release ends one use of the bus. The last one closes the bus, which waits for subscribers.
func (s *sharedBus) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.bus.Close() // topics have drained and returned their errors
		s.bus = nil
	}
}
