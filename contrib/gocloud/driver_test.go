package fanfarepubsub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"gocloud.dev/gcerrors"
	"gocloud.dev/pubsub"

	"github.com/fanfaremq/fanfare/contrib/envelope"
	fanfare "github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// pair opens a topic and a subscription, and shuts them down at the end of t.
func pair(t *testing.T, url string, topicOptions *TopicOptions, subOptions *SubscriptionOptions) (*pubsub.Topic, *pubsub.Subscription) {
	t.Helper()
	pub, sub := open(t, fanfare.Config{}, url), open(t, fanfare.Config{}, url)
	s, err := OpenSubscription(sub, "md.>", subOptions)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := OpenTopic(pub, "md.x", topicOptions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background() // t.Context has ended
		if err := errors.Join(topic.Shutdown(ctx), s.Shutdown(ctx)); err != nil {
			t.Error(err)
		}
	})
	return topic, s
}

func receive(t *testing.T, s *pubsub.Subscription) *pubsub.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	m, err := s.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.Ack()
	return m
}

// Messages sent by one goroutine arrive in order, each once, with metadata, at a subscription to a
// pattern. None can be nacked.
func TestInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		noGoroutines(t)
		topic, s := pair(t, url, &TopicOptions{Subscribers: 1}, nil)
		const count = 1000
		sent := make(chan error, 1)
		go func() {
			for i := range count {
				if err := topic.Send(t.Context(), &pubsub.Message{Body: fmt.Append(nil, i), Metadata: map[string]string{"i": fmt.Sprint(i)}}); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		for i := range count {
			m := receive(t, s)
			if string(m.Body) != fmt.Sprint(i) || !maps.Equal(m.Metadata, map[string]string{"i": fmt.Sprint(i)}) || m.Nackable() {
				t.Fatalf("message %d is %q with %v, nackable: %v, want %[1]d, its number as i, and false", i, m.Body, m.Metadata, m.Nackable())
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

// An error in the stream is passed to OnError. The subscription continues, or fails after the
// messages received before the error.
func TestOnError(t *testing.T) {
	for name, end := range map[string]error{"continues": nil, "fails": errors.New("stop")} {
		t.Run(name, func(t *testing.T) {
			noGoroutines(t)
			var reported []error
			topic, s := pair(t, fabrics["mem"](t), &TopicOptions{Subscribers: 1}, &SubscriptionOptions{OnError: func(err error) error {
				reported = append(reported, err)
				return end
			}})
			var p *fanfare.Publisher
			if !topic.As(&p) {
				t.Fatal("no *pubsub.Publisher")
			}
			// In one packet: the first message is delivered before the error.
			good, err := envelope.Append(nil, nil, []byte("good"))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.WaitSubscribers(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if _, err := p.PublishBatch(t.Context(), [][]byte{good, []byte("no envelope"), good}); err != nil {
				t.Fatal(err)
			}
			if m := receive(t, s); string(m.Body) != "good" {
				t.Errorf(`got body %q, want "good"`, m.Body)
			}
			m, err := s.Receive(t.Context())
			var bad *MessageError
			if len(reported) != 1 || !errors.As(reported[0], &bad) || bad.Topic != "md.x" || bad.Number != 1 || !errors.Is(bad, envelope.ErrNoEnvelope) {
				t.Errorf("OnError was called with %v, want one %v of message 1 on md.x", reported, envelope.ErrNoEnvelope)
			}
			if end == nil {
				if err != nil || string(m.Body) != "good" {
					t.Errorf(`message %v, error %v, want "good"`, m, err)
				}
				m.Ack()
			} else if err == nil || !strings.Contains(err.Error(), "stop") {
				t.Errorf(`message %v, error %v, want an error with "stop"`, m, err)
			}
		})
	}
}

// OnError reports lost messages by number.
func TestGap(t *testing.T) {
	url := fabrics["mem"](t)
	pub := open(t, fanfare.Config{FlowControl: fanfare.FlowNone}, url)
	// The deadline is too short for repairs: each lost packet becomes a gap.
	sub := open(t, fanfare.Config{Faults: "loss=0.3,seed=1", RecoveryDeadline: time.Millisecond}, url)
	gaps := make(chan *fanfare.GapError, 10_000)
	s, err := OpenSubscription(sub, "x", &SubscriptionOptions{OnError: func(err error) error {
		var gap *fanfare.GapError
		if !errors.As(err, &gap) {
			t.Errorf("OnError was called with %v, want a gap", err)
			return nil
		}
		gaps <- gap
		return gap
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	topic, err := OpenTopic(pub, "x", &TopicOptions{Subscribers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Shutdown(t.Context())
	for range 2000 {
		if err := topic.Send(t.Context(), &pubsub.Message{Body: make([]byte, 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	for {
		m, err := s.Receive(t.Context())
		if err == nil {
			m.Ack()
			continue
		}
		var gap *fanfare.GapError
		if want := <-gaps; !s.ErrorAs(err, &gap) || gap != want || gap.Topic != "x" {
			t.Errorf("the subscription failed with %v, OnError was called with %v", err, want)
		}
		return
	}
}

// Raw exchanges bodies with programs that do not use envelopes.
func TestRaw(t *testing.T) {
	topic, s := pair(t, fabrics["mem"](t), &TopicOptions{Raw: true, Subscribers: 1}, &SubscriptionOptions{Raw: true})
	if err := topic.Send(t.Context(), &pubsub.Message{Metadata: map[string]string{"a": "b"}}); gcerrors.Code(err) != gcerrors.InvalidArgument {
		t.Errorf("Send of metadata fails with %v, want %v", err, gcerrors.InvalidArgument)
	}
	if err := topic.Send(t.Context(), &pubsub.Message{Body: []byte("raw")}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, s); string(m.Body) != "raw" || m.Metadata != nil {
		t.Errorf(`message %q with metadata %v, want "raw" with none`, m.Body, m.Metadata)
	}
}

// URLs with the scheme fanfare share a bus, which is closed with its last user.
func TestURL(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		noGoroutines(t)
		t.Setenv("FANFARE_URL", url)
		ctx := t.Context()
		for range 2 { // the second time with a new bus
			s, err := pubsub.OpenSubscription(ctx, "fanfare://md.*?from=window")
			if err != nil {
				t.Fatal(err)
			}
			topic, err := pubsub.OpenTopic(ctx, "fanfare://md.X?subscribers=1")
			if err != nil {
				t.Fatal(err)
			}
			if err := topic.Send(ctx, &pubsub.Message{Body: []byte("by URL")}); err != nil {
				t.Fatal(err)
			}
			m := receive(t, s)
			var in fanfare.Message
			if string(m.Body) != "by URL" || !m.As(&in) || in.Topic != "md.X" {
				t.Errorf(`got %q on topic %q, want "by URL" on md.X`, m.Body, in.Topic)
			}
			if err := errors.Join(s.Shutdown(ctx), topic.Shutdown(ctx)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A URLOpener of the caller uses another bus.
func TestURLOpener(t *testing.T) {
	bus := open(t, fanfare.Config{Loopback: true}, fabrics["mem"](t))
	o := &URLOpener{Bus: bus, TopicOptions: TopicOptions{Raw: true}}
	var mux pubsub.URLMux
	mux.RegisterTopic(Scheme, o)
	mux.RegisterSubscription(Scheme, o)
	s, err := mux.OpenSubscription(t.Context(), "fanfare://md.x?raw=true")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(t.Context())
	topic, err := mux.OpenTopic(t.Context(), "fanfare://md.x?subscribers=1")
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Shutdown(t.Context())
	if err := topic.Send(t.Context(), &pubsub.Message{Body: []byte("raw")}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, s); string(m.Body) != "raw" {
		t.Errorf(`got body %q, want "raw"`, m.Body)
	}
}

// Invalid arguments and URLs yield an error that names the mistake.
func TestBadInput(t *testing.T) {
	noGoroutines(t)
	ctx := t.Context()
	bus := open(t, fanfare.Config{}, fabrics["mem"](t))
	for name, try := range map[string]func() error{
		"without a bus":  func() error { _, err := OpenTopic(nil, "x", nil); return err },
		"without a bus ": func() error { _, err := OpenSubscription(nil, "x", nil); return err },
		"is -1":          func() error { _, err := OpenTopic(bus, "x", &TopicOptions{Subscribers: -1}); return err },
		`topic "a b"`:    func() error { _, err := OpenTopic(bus, "a b", nil); return err },
		`to "a b"`:       func() error { _, err := OpenSubscription(bus, "a b", nil); return err },
		"FANFARE_URL is": func() error { _, err := pubsub.OpenTopic(ctx, "fanfare://x"); return err },
		"FANFARE_URL: ": func() error {
			t.Setenv("FANFARE_URL", "nothing://x")
			_, err := pubsub.OpenTopic(ctx, "fanfare://x")
			return err
		},
		`parameter "ack"`:  func() error { _, err := pubsub.OpenSubscription(ctx, "fanfare://x?ack=1"); return err },
		`parameter "from"`: func() error { _, err := pubsub.OpenTopic(ctx, "fanfare://x?from=1"); return err },
		"from: ":           func() error { _, err := pubsub.OpenSubscription(ctx, "fanfare://x?from=never"); return err },
		"subscribers: ":    func() error { _, err := pubsub.OpenTopic(ctx, "fanfare://x?subscribers=some"); return err },
		"raw: ":            func() error { _, err := pubsub.OpenTopic(ctx, "fanfare://x?raw=maybe"); return err },
		"wildcards": func() error {
			t.Setenv("FANFARE_URL", fabrics["mem"](t))
			_, err := pubsub.OpenTopic(ctx, "fanfare://md.*")
			return err
		},
	} {
		t.Setenv("FANFARE_URL", "")
		if err := try(); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("Open fails with %v, want an error with %q", err, strings.TrimSpace(name))
		}
	}
}

// Errors have a code of the Go CDK, and contain Fanfare's error.
func TestErrorCodes(t *testing.T) {
	topic, s := pair(t, fabrics["mem"](t), &TopicOptions{Subscribers: 1}, nil)
	large := map[string]string{"large": strings.Repeat("x", envelope.MaxHeaderBytes)}
	if err := topic.Send(t.Context(), &pubsub.Message{Metadata: large}); gcerrors.Code(err) != gcerrors.InvalidArgument {
		t.Errorf("Send of large metadata fails with code %v, want %v: %v", gcerrors.Code(err), gcerrors.InvalidArgument, err)
	}
	var sub *fanfare.Subscription
	if !s.As(&sub) {
		t.Fatal("no *pubsub.Subscription")
	}
	sub.Close()
	if _, err := s.Receive(t.Context()); gcerrors.Code(err) != gcerrors.FailedPrecondition {
		t.Errorf("Receive after Close in Fanfare fails with code %v, want %v: %v", gcerrors.Code(err), gcerrors.FailedPrecondition, err)
	}
	for err, code := range map[error]gcerrors.ErrorCode{
		errNoBus:                     gcerrors.NotFound,
		net.ErrClosed:                gcerrors.FailedPrecondition,
		context.Canceled:             gcerrors.Canceled,
		&fanfare.TopicError{}:        gcerrors.InvalidArgument,
		&events.EvictedError{}:       gcerrors.ResourceExhausted,
		errors.New("something else"): gcerrors.Unknown,
	} {
		if got := errorCode(fmt.Errorf("wrapped: %w", err)); got != code {
			t.Errorf("error %v has code %v, want %v", err, got, code)
		}
	}
}

// The context ends a Send that is blocked by a subscription that reads nothing, and a Shutdown,
// whose error names the subscriber.
func TestBlocked(t *testing.T) {
	url := fabrics["mem"](t)
	pub, err := fanfare.Config{Linger: -1, Silence: time.Minute}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close() // returns an error: a subscriber reads nothing
	sub := open(t, fanfare.Config{Name: "sleeper", ReceiveWindowBytes: 64 << 10}, url)
	if _, err := sub.Subscribe("x"); err != nil {
		t.Fatal(err)
	}
	topic, err := OpenTopic(pub, "x", &TopicOptions{Subscribers: 1, DrainTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !slices.ContainsFunc(pub.Stats().Publications, func(s stats.Publication) bool { return s.Blocked == events.ReasonFlow }) {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	for err == nil {
		err = topic.Send(ctx, &pubsub.Message{Body: make([]byte, 1000)})
	}
	if !errors.Is(err, context.Canceled) && gcerrors.Code(err) != gcerrors.Canceled {
		t.Errorf("Send fails with %v, want %v", err, context.Canceled)
	}
	var flow *events.FlowError
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := topic.Shutdown(ctx); !topic.ErrorAs(err, &flow) || flow.Name != "sleeper" {
		t.Errorf(`Shutdown fails with %v, want a FlowError of "sleeper"`, err)
	}
}
