package pubsub

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// PublisherEnded names the subscribed topics that the publisher had, also those without messages: for readers and
// handlers, and for topics matched by a pattern.
func TestPublisherEndedNamesTopics(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		option := "?map=prefix:1" // so that all are in one group
		if strings.Contains(url, "?") {
			option = "&map=prefix:1"
		}
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url+option), openBus(t, Config{}, url+option)
		reads := subscribe(t, subBus, "md.a", Topics("md.b", "md.x.*"), PublisherEvents())
		handled := make(chan []string, 1)
		if _, err := subBus.Handle("md.a", func(_ Message, err error) {
			var e *PublisherEvent
			if errors.As(err, &e) && e.Kind == events.PublisherEnded {
				handled <- e.Topics
			}
		}, PublisherEvents()); err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{"md.other", "md.a", "md.x.y"} {
			publisher(t, pubBus, topic)
		}
		wait(t, ctx, publisher(t, pubBus, "md.x.y"), 1)
		if err := pubBus.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		topics := []string{"md.a", "md.x.y"}
		event(t, ctx, reads, events.PublisherUp)
		if e := event(t, ctx, reads, events.PublisherEnded); !slices.Equal(e.Topics, topics) {
			t.Errorf("the reader got topics %q, want %q", e.Topics, topics)
		}
		select {
		case got := <-handled:
			if !slices.Equal(got, topics) {
				t.Errorf("handlers got topics %q, want %q", got, topics)
			}
		case <-ctx.Done():
			t.Error("handlers got no PublisherEnded")
		}
	})
}
