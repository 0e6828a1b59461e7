package fanfarepubsub

import (
	"context"
	"errors"
	"testing"

	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/driver"
	"gocloud.dev/pubsub/drivertest"

	fanfare "github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// The Go CDK's conformance suite. It skips TestNack: there is no redelivery.
func TestConformance(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		drivertest.RunConformanceTests(t, func(_ context.Context, t *testing.T) (drivertest.Harness, error) {
			return &harness{pub: open(t, fanfare.Config{}, url), sub: open(t, fanfare.Config{}, url)}, nil
		}, []drivertest.AsTest{asTest{}})
	})
}

// harness has one bus for the topics and one for the subscriptions of a test.
type harness struct{ pub, sub *fanfare.Bus }

const testTopic = "conformance.x"

func (h *harness) CreateTopic(context.Context, string) (driver.Topic, func(), error) {
	t, err := openTopic(h.pub, testTopic, nil)
	return t, func() {}, err
}

// Topics need not be created: any name works. The nearest to a nonexistent topic is one without a bus.
func (h *harness) MakeNonexistentTopic(context.Context) (driver.Topic, error) {
	return (*topic)(nil), nil
}

// The subscription is complete when the publisher has discovered it.
func (h *harness) CreateSubscription(ctx context.Context, dt driver.Topic, _ string) (driver.Subscription, func(), error) {
	s, err := openSubscription(h.sub, testTopic, nil)
	if err == nil {
		err = dt.(*topic).pub.WaitSubscribers(ctx, 1)
	}
	return s, func() {}, err
}

func (h *harness) MakeNonexistentSubscription(context.Context) (driver.Subscription, func(), error) {
	return (*subscription)(nil), func() {}, nil
}

func (h *harness) Close()                              {}
func (h *harness) MaxBatchSizes() (int, int)           { return 0, 0 }
func (h *harness) SupportsMultipleSubscriptions() bool { return true }

// asTest checks what doc.go documents of As.
type asTest struct{}

func (asTest) Name() string { return "types of Fanfare" }

func (asTest) TopicCheck(t *pubsub.Topic) error {
	var p *fanfare.Publisher
	if !t.As(&p) || p.Topic() != testTopic {
		return errors.New("no *pubsub.Publisher")
	}
	return nil
}

func (asTest) SubscriptionCheck(s *pubsub.Subscription) error {
	var sub *fanfare.Subscription
	if !s.As(&sub) || sub.Stats().Topics != 1 {
		return errors.New("no *pubsub.Subscription")
	}
	return nil
}

func (asTest) TopicErrorCheck(t *pubsub.Topic, err error) error {
	var flow *events.FlowError
	if t.ErrorAs(err, &flow) {
		return errors.New("got a *events.FlowError without a bus")
	}
	return nil
}

func (asTest) SubscriptionErrorCheck(s *pubsub.Subscription, err error) error {
	var gap *fanfare.GapError
	if s.ErrorAs(err, &gap) {
		return errors.New("got a *pubsub.GapError without a bus")
	}
	return nil
}

func (asTest) MessageCheck(m *pubsub.Message) error {
	var in fanfare.Message
	if !m.As(&in) || in.Topic != testTopic || in.Publisher() == 0 || in.Data != nil {
		return errors.New("no pubsub.Message")
	}
	return nil
}

func (asTest) BeforeSend(as func(any) bool) error { return noMessage(as) }
func (asTest) AfterSend(as func(any) bool) error  { return noMessage(as) }

func noMessage(as func(any) bool) error {
	var in fanfare.Message
	if as(&in) {
		return errors.New("got a pubsub.Message for a message that is being sent")
	}
	return nil
}

func BenchmarkMem(b *testing.B) {
	bus := open(b, fanfare.Config{Loopback: true}, fabrics["mem"](b))
	topic, err := OpenTopic(bus, "x", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer topic.Shutdown(b.Context())
	sub, err := OpenSubscription(bus, "x", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer sub.Shutdown(b.Context())
	drivertest.RunBenchmarks(b, topic, sub)
}
