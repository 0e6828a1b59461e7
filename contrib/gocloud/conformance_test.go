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

// The Go CDK's own suite. It skips TestNack: there is no redelivery.
func TestConformance(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		drivertest.RunConformanceTests(t, func(_ context.Context, t *testing.T) (drivertest.Harness, error) {
			return &harness{pub: open(t, fanfare.Config{}, url), sub: open(t, fanfare.Config{}, url)}, nil
		}, []drivertest.AsTest{asTest{}})
	})
}

// harness has a bus for topics and one for subscriptions, of one test.
type harness struct{ pub, sub *fanfare.Bus }

const testTopic = "conformance.x"

func (h *harness) CreateTopic(context.Context, string) (driver.Topic, func(), error) {
	t, err := openTopic(h.pub, testTopic, nil)
	return t, func() {}, err
}

// Topics are not made before they are used: any name will do. What there is instead is a
// topic of no bus.
func (h *harness) MakeNonexistentTopic(context.Context) (driver.Topic, error) {
	return (*topic)(nil), nil
}

// A subscription is there when the publisher knows of it.
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

// asTest is what doc.go says of As.
type asTest struct{}

func (asTest) Name() string { return "Fanfare's own types" }

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
		return errors.New("a *events.FlowError where there is no bus")
	}
	return nil
}

func (asTest) SubscriptionErrorCheck(s *pubsub.Subscription, err error) error {
	var gap *fanfare.GapError
	if s.ErrorAs(err, &gap) {
		return errors.New("a *pubsub.GapError where there is no bus")
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

func (asTest) BeforeSend(as func(any) bool) error { return none(as) }
func (asTest) AfterSend(as func(any) bool) error  { return none(as) }

func none(as func(any) bool) error {
	var in fanfare.Message
	if as(&in) {
		return errors.New("a pubsub.Message of what is sent")
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
