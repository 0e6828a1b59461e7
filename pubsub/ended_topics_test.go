package pubsub

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// The end of a publisher says which of the topics that are subscribed it had, also where no
// message of them came: to who reads and to handlers, and of topics that a pattern found.
func TestEndSaysTopics(t *testing.T) {
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
			t.Errorf("who reads is told of %q", e.Topics)
		}
		select {
		case got := <-handled:
			if !slices.Equal(got, topics) {
				t.Errorf("handlers are told of %q", got)
			}
		case <-ctx.Done():
			t.Error("handlers are told nothing")
		}
	})
}
