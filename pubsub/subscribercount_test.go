package pubsub

import (
	"errors"
	"fmt"
	"testing"
)

// Subscribers counts buses that subscribe to the topic, not those that only share its group. docs/protocol §7.10.
func TestSubscribersAreCountedByTopic(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		url = inGroups(url, 1)
		p := publisher(t, openBus(t, Config{}, url), "totally.other")
		many := func(more ...string) SubscribeOption {
			for i := range 100 {
				more = append(more, fmt.Sprintf("many.%d", i))
			}
			return Topics(more...)
		}
		on := func(topic string, options ...SubscribeOption) {
			t.Helper()
			if _, err := openBus(t, Config{}, url).Handle(topic, func(Message, error) {}, options...); err != nil {
				t.Fatal(err)
			}
		}
		on("md.>")
		on("unrelated", many())
		for len(p.p.Members(0)) < 2 { // members of the group
			if ctx.Err() != nil {
				t.Fatal("no member joins")
			}
			publish(t, ctx, p, "a packet")
		}
		on("totally.other")
		wait(t, ctx, p, 1)
		if n, of := p.Subscribers(), len(p.Receivers()); n != 1 || of != 1 {
			t.Errorf("%d subscribers are counted, %d named, want 1", n, of)
		}
		on("totally.*")
		wait(t, ctx, p, 2)
		on("also", many("totally.other"))
		wait(t, ctx, p, 3)
		if n, of := p.Subscribers(), len(p.Receivers()); n != 3 || of != 3 {
			t.Errorf("%d subscribers are counted, %d named, want 3", n, of)
		}
	})
}

// A request on a topic without subscribers returns ErrNoResponders although buses with patterns share the group.
func TestNoRespondersDespitePattern(t *testing.T) {
	ctx := testContext(t)
	url := inGroups(memURL(t), 1)
	on := openBus(t, Config{}, url)
	if _, err := on.Handle("md.>", func(Message, error) {}); err != nil {
		t.Fatal(err)
	}
	b := openBus(t, Config{}, url)
	wait(t, ctx, publisher(t, b, "md.x"), 1)
	if _, err := b.Request(ctx, "totally.other", []byte("anybody?")); !errors.Is(err, ErrNoResponders) {
		t.Errorf("%v, want ErrNoResponders", err)
	}
}
