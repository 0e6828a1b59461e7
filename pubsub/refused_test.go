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

// A publisher beyond the limit is told of in the stream of each subscription, once, and
// by the bus; the others are delivered, and it is, too, when there is room.
// docs/protocol §12.1.
func refusedPublisherIsTold(t *testing.T, url string) {
	ctx := testContext(t)
	var mu sync.Mutex
	var told, handled []error
	note := func(to *[]error, err error) {
		mu.Lock()
		defer mu.Unlock()
		*to = append(*to, err)
	}
	subBus := openBus(t, Config{MaxPublishers: 1, OnEvent: func(e events.Event) {
		if e.Kind == events.PublisherRefused {
			note(&told, e.Err)
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
	heardBus := openBus(t, Config{}, url)
	heard := publisher(t, heardBus, "x")
	wait(t, ctx, heard, 1)
	publish(t, ctx, heard, "heard")
	want(t, ctx, sub, "heard")

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
			t.Errorf("got %+v", refused)
		}
		if text := err.Error(); !strings.Contains(text, tooMany.ID().String()) || !strings.Contains(text, "Config.MaxPublishers") {
			t.Error(text)
		}
	}
	_, err := sub.Next(ctx)
	check(err)
	for subBus.Stats().Groups[0].StreamsRefused < 3 { // once, however many packets come
		publish(t, ctx, pub, "refused")
		time.Sleep(time.Millisecond)
	}
	if err := pub.Flush(ctx); err != nil { // or some would come when there is room
		t.Fatal(err)
	}
	publish(t, ctx, heard, "goes on")
	want(t, ctx, sub, "goes on")
	later := subscribe(t, subBus, "x")
	_, err = later.Next(ctx)
	check(err)

	heardBus.Close()
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "there is room")
	want(t, ctx, sub, "there is room")
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || len(handled) != 1 {
		t.Fatalf("the bus was told %v, the handler %v: want one each", told, handled)
	}
	check(told[0])
	check(handled[0])
}
