package pubsub

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A handler that ends the bus's goroutine, as t.FailNow does, ends the bus, and all calls on it return an error.
func TestHandlerExits(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	var log logLines
	bus := openBus(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, url)
	pubBus := openBus(t, Config{Linger: -1}, url)
	topics := sameGroup(bus, 2)
	handled, err := bus.Handle(topics[0], func(Message, error) { runtime.Goexit() }, Topics("in.another.group"))
	if err != nil {
		t.Fatal(err)
	}
	other, own := subscribe(t, bus, topics[1]), publisher(t, bus, topics[1])
	pub := publisher(t, pubBus, topics[0])
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "x")
	<-handled.Done()
	_, readErr := other.Next(ctx)
	for what, err := range map[string]error{"Err": handled.Err(), "Next of another": readErr, "Publish": own.Publish(ctx, nil), "Shutdown": bus.Shutdown(ctx)} {
		if err == nil || !strings.Contains(err.Error(), "a handler of topic "+topics[0]+" has ended its goroutine, and the bus with it: have it return") {
			t.Errorf("%s: error %v, want the handler's end of its goroutine", what, err)
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), `handler="a handler of topic `+topics[0]) {
		t.Errorf("log, want one error on the ended handler:\n%s", &log)
	}
}

// OnEvent that ends the bus's goroutine ends the bus, too.
func TestOnEventExits(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	bus, pubBus := openBus(t, Config{OnEvent: func(events.Event) { runtime.Goexit() }}, url), openBus(t, Config{Linger: -1}, url)
	sub := subscribe(t, bus, "x")
	publish(t, ctx, publisher(t, pubBus, "x"), "x")
	if _, err := sub.Next(ctx); err == nil || !strings.Contains(err.Error(), "OnEvent has ended its goroutine, and the bus with it") {
		t.Error(err)
	}
}

// A handler with its own goroutine, and the key function of Conflate, end only their subscription. The bus continues.
func TestOwnGoroutineHandlerExits(t *testing.T) {
	exit := func(Message, error) { runtime.Goexit() }
	key := func(Message) []byte { runtime.Goexit(); return nil }
	for name, c := range map[string]struct {
		what      string
		subscribe func(*Bus) (*Subscription, error)
	}{
		"SlowGap":           {"a handler", func(b *Bus) (*Subscription, error) { return b.Handle("x", exit, Topics("y"), SlowConsumer(SlowGap)) }},
		"Conflate, handler": {"a handler", func(b *Bus) (*Subscription, error) { return b.Handle("x", exit, Topics("y"), Conflate(nil)) }},
		"Conflate, key":     {"Conflate's key", func(b *Bus) (*Subscription, error) { return b.Subscribe("x", Topics("y"), Conflate(key)) }},
		"Conflate, key, handler": {"Conflate's key", func(b *Bus) (*Subscription, error) {
			return b.Handle("x", func(Message, error) {}, Topics("y"), Conflate(key))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			url := memURL(t)
			var log logLines
			bus := openBus(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, url)
			pubBus := openBus(t, Config{}, url)
			sub, err := c.subscribe(bus)
			if err != nil {
				t.Fatal(err)
			}
			other, pub := subscribe(t, bus, "x"), publisher(t, pubBus, "x")
			wait(t, ctx, pub, 1)
			publish(t, ctx, pub, "0")
			<-sub.Done()
			if err := sub.Err(); err == nil || !strings.Contains(err.Error(), c.what+" of topic x y has ended its goroutine, and its subscription with it") {
				t.Error(err)
			}
			publish(t, ctx, pub, "1")
			want(t, ctx, other, "0")
			want(t, ctx, other, "1")
			if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
				t.Errorf("%d errors in the log, want 1:\n%s", n, &log)
			}
			if err := sub.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// If the State function of a topic ends its goroutine, that topic has no state, and other topics are not affected.
func TestStateFunctionExits(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	var log logLines
	pubBus, bus := openBus(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, url), openBus(t, Config{}, url)
	topics := sameGroup(pubBus, 2)
	if err := publisher(t, pubBus, topics[0]).State(func(*StateWriter) error { runtime.Goexit(); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := publisher(t, pubBus, topics[1]).State(func(w *StateWriter) error { return w.Write([]byte("all")) }); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the publisher still works
		subs := []*Subscription{subscribe(t, bus, topics[0], From(State)), subscribe(t, bus, topics[1], From(State))}
		var none *StateError
		if _, err := subs[0].Next(ctx); !errors.As(err, &none) {
			t.Errorf("Next: error %v, want a StateError", err)
		}
		if m := want(t, context.Background(), subs[1], "all"); !m.IsState() {
			t.Error("the record of another topic is not marked as state")
		}
	}
	if !strings.Contains(log.String(), "the function that makes it has ended its goroutine") {
		t.Errorf("log lacks the ended goroutine of the state function:\n%s", &log)
	}
}
