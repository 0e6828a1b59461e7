package fanfare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/fanfaremq/fanfare/contrib/envelope"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// UUID, metadata, payload and context arrive unchanged, and the context names the message's origin.
func TestMessage(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		noGoroutines(t)
		pubBus, subBus := open(t, pubsub.Config{Name: "feed"}, url), open(t, pubsub.Config{}, url)
		type key struct{}
		out, err := newSubscriber(t, subBus, SubscriberConfig{}).Subscribe(context.WithValue(t.Context(), key{}, "value"), "orders.*")
		if err != nil {
			t.Fatal(err)
		}
		p := newPublisher(t, pubBus, PublisherConfig{Subscribers: 1})
		large := strings.Repeat("x", 100_000)
		for i, payload := range []string{"first", "", large} {
			msg := message.NewMessage(fmt.Sprint("uuid-", i), []byte(payload))
			msg.Metadata.Set("trace", fmt.Sprint(i))
			msg.Metadata.Set("", "ünï")
			if err := p.Publish("orders.new", msg); err != nil {
				t.Fatal(err)
			}
			got := next(t, out)
			if got.UUID != msg.UUID || string(got.Payload) != payload || !got.Equals(msg) {
				t.Errorf("got %s with %v and %d bytes, sent %s with %v and %d", got.UUID, got.Metadata, len(got.Payload), msg.UUID, msg.Metadata, len(payload))
			}
			in, ok := MessageFromCtx(got.Context())
			if !ok || in.Topic != "orders.new" || in.Number != uint64(i) || in.Data != nil || got.Context().Value(key{}) != "value" {
				t.Errorf(`context has message %+v, %v and value %v, want number %d of orders.new without data, and "value"`, in, ok, got.Context().Value(key{}), i)
			}
			got.Ack()
		}
	})
}

// A nack delivers the same message again, before any other message. Each delivery is a copy: a
// handler that changes it does not affect the next delivery.
func TestNack(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		pubBus, subBus := open(t, pubsub.Config{}, url), open(t, pubsub.Config{}, url)
		out := subscribe(t, newSubscriber(t, subBus, SubscriberConfig{NackDelay: time.Millisecond}), "x")
		p := newPublisher(t, pubBus, PublisherConfig{Subscribers: 1})
		if err := p.Publish("x", message.NewMessage("1", nil), message.NewMessage("2", nil)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			msg := next(t, out)
			if msg.UUID != "1" || len(msg.Metadata) > 0 {
				t.Fatalf("got message %s with metadata %v, want 1 and none", msg.UUID, msg.Metadata)
			}
			msg.Metadata.Set("touched", "by a handler")
			msg.Nack()
		}
		first := next(t, out)
		first.Ack()
		<-first.Context().Done()
		if msg := next(t, out); msg.UUID != "2" {
			t.Errorf("got message %s after the ack", msg.UUID)
		}
	})
}

// An error in the stream is passed to OnError. The subscription continues, or ends if OnError returns an error.
func TestOnError(t *testing.T) {
	stop := errors.New("stop")
	for name, end := range map[string]error{"continues": nil, "ends": stop} {
		t.Run(name, func(t *testing.T) {
			noGoroutines(t)
			url := fabrics["mem"](t)
			pubBus, subBus := open(t, pubsub.Config{}, url), open(t, pubsub.Config{}, url)
			reported := make(chan error, 10)
			out := subscribe(t, newSubscriber(t, subBus, SubscriberConfig{OnError: func(topic string, err error) error {
				if topic != "x" {
					t.Errorf(`OnError was called for topic %q, want "x"`, topic)
				}
				reported <- err
				return end
			}}), "x")
			raw, err := pubBus.Publisher("x")
			if err != nil {
				t.Fatal(err)
			}
			if err := raw.WaitSubscribers(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if err := raw.Publish(t.Context(), []byte("no envelope")); err != nil {
				t.Fatal(err)
			}
			var bad *UnmarshalError
			if err := <-reported; !errors.As(err, &bad) || !errors.Is(err, envelope.ErrNoEnvelope) || bad.Topic != "x" || bad.Number != 0 {
				t.Errorf("OnError was called with %v, want %v of message 0 on x", err, envelope.ErrNoEnvelope)
			}
			if end != nil {
				if msg := next(t, out); msg != nil {
					t.Errorf("got message %v, want a closed channel", msg)
				}
				return
			}
			if err := newPublisher(t, pubBus, PublisherConfig{}).Publish("x", message.NewMessage("1", nil)); err != nil {
				t.Fatal(err)
			}
			if msg := next(t, out); msg.UUID != "1" {
				t.Errorf("got message %s, want 1", msg.UUID)
			}
		})
	}
}

// OnError and the log report lost messages by number, in the order of the stream.
func TestGap(t *testing.T) {
	url := fabrics["mem"](t) + "&queue=65536" // large enough for all messages
	pubBus := open(t, pubsub.Config{FlowControl: pubsub.FlowNone}, url)
	// The deadline is too short for repairs: each lost packet becomes a gap.
	subBus := open(t, pubsub.Config{Faults: "loss=0.3,seed=1", RecoveryDeadline: time.Millisecond, OnEvent: func(events.Event) {}}, url)
	var mu sync.Mutex
	var lost uint64
	gaps := 0
	log := watermill.NewCaptureLogger()
	s := newSubscriber(t, subBus, SubscriberConfig{Logger: log, OnError: func(_ string, err error) error {
		var gap *pubsub.GapError
		if !errors.As(err, &gap) {
			t.Errorf("OnError was called with %v, want a gap", err)
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		lost += gap.Count
		gaps++
		return nil
	}})
	out := subscribe(t, s, "x")
	p := newPublisher(t, pubBus, PublisherConfig{Subscribers: 1})
	const count = 2000
	go func() {
		for i := range count {
			p.Publish("x", message.NewMessage(fmt.Sprint(i), make([]byte, 1000)))
		}
	}()
	var last uint64
	received := uint64(0)
	for last < count*9/10 {
		msg := next(t, out)
		in, _ := MessageFromCtx(msg.Context())
		mu.Lock()
		first := in.Number - received - lost // the first message of the subscription
		mu.Unlock()
		if msg.UUID != fmt.Sprint(in.Number) || first > count/2 {
			t.Fatalf("message %d after %d received and %d lost", in.Number, received, lost)
		}
		last = in.Number
		received++
		msg.Ack()
	}
	mu.Lock()
	defer mu.Unlock()
	if lost == 0 || len(log.Captured()[watermill.ErrorLogLevel]) < gaps {
		t.Errorf("%d of %d messages lost in %d gaps, %d logged, want some lost and each gap logged", lost, count, gaps, len(log.Captured()[watermill.ErrorLogLevel]))
	}
}

// Raw exchanges messages with programs that do not use envelopes, in both directions.
func TestRaw(t *testing.T) {
	url := fabrics["mem"](t)
	bus := open(t, pubsub.Config{Loopback: true}, url)
	out := subscribe(t, newSubscriber(t, bus, SubscriberConfig{Unmarshaler: Raw{}}), "x")
	plain, err := bus.Subscribe("x")
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, bus, PublisherConfig{Marshaler: Raw{}, Subscribers: 1})
	if err := p.Publish("x", message.NewMessage("not sent", []byte("payload"))); err != nil {
		t.Fatal(err)
	}
	msg := next(t, out)
	in, _ := MessageFromCtx(msg.Context())
	if string(msg.Payload) != "payload" || msg.UUID != fmt.Sprintf("%v-%v-x-0", in.Publisher(), in.Epoch()) {
		t.Errorf(`got message %s %q, want "payload" with its publisher, epoch and number`, msg.UUID, msg.Payload)
	}
	if got, err := plain.Next(t.Context()); err != nil || string(got.Data) != "payload" {
		t.Errorf("without the adapter: got %q, error %v, want %q", got.Data, err, "payload")
	}
	msg.Ack()
}

// A closed publisher or subscriber returns net.ErrClosed and leaves no goroutines. Its bus stays open.
func TestClose(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		noGoroutines(t)
		pubBus, subBus := open(t, pubsub.Config{}, url), open(t, pubsub.Config{}, url)
		s, p := newSubscriber(t, subBus, SubscriberConfig{}), newPublisher(t, pubBus, PublisherConfig{Subscribers: 1})
		idle, unread, unacked := subscribe(t, s, "idle"), subscribe(t, s, "x"), subscribe(t, s, "x")
		if err := p.Publish("x", message.NewMessage("1", nil)); err != nil {
			t.Fatal(err)
		}
		msg := next(t, unacked)
		for range 2 {
			if err := errors.Join(p.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
		}
		for name, out := range map[string]<-chan *message.Message{"idle": idle, "unread": unread, "unacked": unacked} {
			select {
			case msg, ok := <-out:
				if ok {
					t.Errorf("%s: got message %s after Close", name, msg.UUID)
				}
			default:
				t.Errorf("%s: the channel is open, want it closed", name)
			}
		}
		if msg.Context().Err() == nil || !msg.Ack() {
			t.Error("after Close the context of a message is not done, or the message cannot be acked")
		}
		if _, err := s.Subscribe(t.Context(), "x"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Subscribe after Close fails with %v, want %v", err, net.ErrClosed)
		}
		if err := p.Publish("x", msg); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Publish after Close fails with %v, want %v", err, net.ErrClosed)
		}
		if err := newPublisher(t, pubBus, PublisherConfig{}).Publish("x", message.NewMessage("2", nil)); err != nil {
			t.Errorf("the bus is closed too: %v", err)
		}
	})
}

// The end of a subscription's context ends only that subscription.
func TestSubscribeContext(t *testing.T) {
	url := fabrics["mem"](t)
	bus := open(t, pubsub.Config{Loopback: true}, url)
	s := newSubscriber(t, bus, SubscriberConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	ended, err := s.Subscribe(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	open := subscribe(t, s, "x")
	cancel()
	if msg := next(t, ended); msg != nil {
		t.Errorf("got message %s, want none", msg.UUID)
	}
	if err := newPublisher(t, bus, PublisherConfig{Subscribers: 1}).Publish("x", message.NewMessage("1", nil)); err != nil {
		t.Fatal(err)
	}
	if msg := next(t, open); msg.UUID != "1" {
		t.Errorf("got message %s, want 1", msg.UUID)
	}
}

// Closing the bus ends its subscriptions, and reports it to OnError.
func TestBusClosed(t *testing.T) {
	noGoroutines(t)
	url := fabrics["mem"](t)
	bus := open(t, pubsub.Config{Loopback: true}, url)
	reported := make(chan error, 1)
	out := subscribe(t, newSubscriber(t, bus, SubscriberConfig{OnError: func(_ string, err error) error { reported <- err; return nil }}), "x")
	p := newPublisher(t, bus, PublisherConfig{})
	if err := p.Publish("x", message.NewMessage("1", nil)); err != nil {
		t.Fatal(err)
	}
	next(t, out).Ack()
	if err := bus.Close(); err != nil {
		t.Fatal(err)
	}
	if msg := next(t, out); msg != nil {
		t.Errorf("got message %s, want none", msg.UUID)
	}
	if err := <-reported; !errors.Is(err, net.ErrClosed) {
		t.Errorf("OnError was called with %v, want %v", err, net.ErrClosed)
	}
	if err := p.Publish("x", message.NewMessage("2", nil)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Publish fails with %v, want %v", err, net.ErrClosed)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close failed: %v", err)
	}
}

// The context of its message and Close end a Publish that waits for subscribers or is blocked by
// one. The error of Close names subscribers that lack messages.
func TestBlocked(t *testing.T) {
	url := fabrics["mem"](t)
	pubBus, err := pubsub.Config{Linger: -1, Silence: time.Minute}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pubBus.Close() // returns an error: a subscriber reads nothing
	subBus := open(t, pubsub.Config{Name: "sleeper", ReceiveWindowBytes: 64 << 10}, url)

	p := newPublisher(t, pubBus, PublisherConfig{Subscribers: 1, DrainTimeout: -1})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("canceled by the test")
	time.AfterFunc(time.Millisecond, func() { cancel(cause) })
	msg := message.NewMessage("1", nil)
	msg.SetContext(ctx)
	if err := p.Publish("no.subscribers", msg); !errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
		t.Errorf("Publish without subscribers fails with %v, want %v", err, context.Canceled)
	}

	subscribe(t, newSubscriber(t, subBus, SubscriberConfig{}), "x") // never read
	blocking := newPublisher(t, pubBus, PublisherConfig{Subscribers: 1, DrainTimeout: 100 * time.Millisecond})
	ended := make(chan error)
	go func() {
		for {
			msg := message.NewMessage("1", make([]byte, 1000))
			if err := blocking.Publish("x", msg, msg); err != nil {
				ended <- err
				return
			}
		}
	}()
	for blocked := false; !blocked; {
		blocked = slices.ContainsFunc(pubBus.Stats().Publications, func(s stats.Publication) bool { return s.Blocked == events.ReasonFlow })
		time.Sleep(time.Millisecond)
	}
	closed := blocking.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "of 2") {
		t.Errorf("Publish after Close: %v", err)
	}
	var flow *events.FlowError
	if !errors.As(closed, &flow) || flow.Name != "sleeper" || !strings.Contains(closed.Error(), `"x"`) {
		t.Errorf(`Close fails with %v, want a FlowError of "sleeper" that names "x"`, closed)
	}
}

// Invalid arguments yield an error that names the mistake.
func TestBadInput(t *testing.T) {
	bus := open(t, pubsub.Config{}, fabrics["mem"](t))
	if _, err := NewPublisher(nil, PublisherConfig{}); err == nil {
		t.Error("NewPublisher accepts a nil bus")
	}
	if _, err := NewSubscriber(nil, SubscriberConfig{}); err == nil {
		t.Error("NewSubscriber accepts a nil bus")
	}
	if _, err := NewPublisher(bus, PublisherConfig{Subscribers: -1}); err == nil {
		t.Error("NewPublisher accepts -1 subscribers")
	}
	if _, err := NewSubscriber(bus, SubscriberConfig{NackDelay: -1}); err == nil {
		t.Error("NewSubscriber accepts a negative delay")
	}
	p, s := newPublisher(t, bus, PublisherConfig{}), newSubscriber(t, bus, SubscriberConfig{})
	if err := p.Publish("a topic", message.NewMessage("1", nil)); !errors.Is(err, pubsub.ErrTopic) {
		t.Errorf("Publish on an invalid topic fails with %v, want %v", err, pubsub.ErrTopic)
	}
	if err := p.Publish("md.*", message.NewMessage("1", nil)); !errors.Is(err, pubsub.ErrWildcard) {
		t.Errorf("Publish on a pattern fails with %v, want %v", err, pubsub.ErrWildcard)
	}
	if _, err := s.Subscribe(t.Context(), "a topic"); !errors.Is(err, pubsub.ErrTopic) {
		t.Errorf("Subscribe on an invalid topic fails with %v, want %v", err, pubsub.ErrTopic)
	}
	msg := message.NewMessage("1", nil)
	msg.Metadata.Set("large", strings.Repeat("x", envelope.MaxHeaderBytes))
	if err := p.Publish("x", message.NewMessage("0", nil), msg); !errors.Is(err, envelope.ErrTooLarge) || !strings.Contains(err.Error(), "after 1 of 2") {
		t.Errorf("Publish with large metadata fails with %v, want %v after 1 of 2", err, envelope.ErrTooLarge)
	}
	if err := p.Publish("x"); err != nil {
		t.Errorf("Publish without messages failed: %v", err)
	}
}
