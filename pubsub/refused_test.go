package pubsub

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A publisher beyond MaxPublishers is reported once in the stream of each subscription, and by OnEvent; others are
// delivered, and when another publisher has left it is, too. docs/protocol §12.1.
func refusedPublisherIsReported(t *testing.T, url string) {
	ctx := testContext(t)
	var mu sync.Mutex
	var reported, handled []error
	note := func(to *[]error, err error) {
		mu.Lock()
		defer mu.Unlock()
		*to = append(*to, err)
	}
	subBus := openBus(t, Config{MaxPublishers: 1, OnEvent: func(e events.Event) {
		if e.Kind == events.PublisherRefused {
			note(&reported, e.Err)
		}
	}}, url)
	sub := subscribe(t, subBus, "x")
	if _, err := subBus.Handle("x", func(_ Message, err error) {
		if err != nil {
			note(&handled, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	receivedBus := openBus(t, Config{}, url)
	received := publisher(t, receivedBus, "x")
	wait(t, ctx, received, 1)
	publish(t, ctx, received, "received")
	want(t, ctx, sub, "received")

	tooMany := openBus(t, Config{}, url)
	pub := publisher(t, tooMany, "x")
	for i := range 10 {
		publish(t, ctx, pub, fmt.Sprint("refused ", i))
	}
	check := func(err error) {
		t.Helper()
		var refused *events.PublisherRefusedError
		if !errors.As(err, &refused) || !errors.Is(err, events.ErrPublisherRefused) {
			t.Fatalf("got %v, want a *PublisherRefusedError", err)
		}
		if refused.Publisher != tooMany.ID() || refused.Reason != events.RefusedPublishers || refused.Group == "" || refused.Epoch == 0 {
			t.Errorf("RefusedError %+v, want publisher %v, reason %v, a group and an epoch", refused, tooMany.ID(), events.RefusedPublishers)
		}
		if text := err.Error(); !strings.Contains(text, tooMany.ID().String()) || !strings.Contains(text, "Config.MaxPublishers") {
			t.Errorf("error text %q lacks the publisher %v or Config.MaxPublishers", text, tooMany.ID())
		}
	}
	_, err := sub.Next(ctx)
	check(err)
	for subBus.Stats().Groups[0].StreamsRefused < 3 { // reported once, however many packets arrive
		publish(t, ctx, pub, "refused")
		time.Sleep(time.Millisecond)
	}
	if err := pub.Flush(ctx); err != nil { // otherwise some would arrive when there is room
		t.Fatal(err)
	}
	publish(t, ctx, received, "continues")
	want(t, ctx, sub, "continues")
	later := subscribe(t, subBus, "x")
	_, err = later.Next(ctx)
	check(err)

	receivedBus.Close()
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "there is room")
	want(t, ctx, sub, "there is room")
	mu.Lock()
	defer mu.Unlock()
	if len(reported) != 1 || len(handled) != 1 {
		t.Fatalf("OnEvent got %v, the handler %v: want one each", reported, handled)
	}
	check(reported[0])
	check(handled[0])
}
