package cli

import (
	"io"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A subscriber that vanished and was heard again is not one that vanished.
func TestVanished(t *testing.T) {
	p := pub{e: &env{console: newConsole(io.Discard, "pub")}}
	for i, step := range []struct {
		kind       events.Kind
		subscriber uint64
		want       uint64
	}{
		{events.SubscriberUp, 1, 0},
		{events.SubscriberSilent, 1, 1},
		{events.SubscriberSilent, 2, 2},
		{events.SubscriberUp, 3, 2},
		{events.SubscriberUp, 1, 1},
		{events.SubscriberSilent, 1, 2},
	} {
		p.event(events.Event{Kind: step.kind, Subscriber: step.subscriber})
		if got := p.vanished.count(); got != step.want {
			t.Errorf("step %d: %d have vanished, want %d", i, got, step.want)
		}
	}
}
