package pubsub

import (
	"errors"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A new handler with PublisherEvents gets PublisherUp once for each publisher that is already up, like a new reader.
func TestHandlerGetsPublishersThatAreUp(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		if _, err := subBus.Handle("x", func(Message, error) {}); err != nil {
			t.Fatal(err)
		}
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1) // ensures that packets have been sent
		got := make(chan error, 10)
		if _, err := subBus.Handle("x", func(m Message, err error) {
			if err != nil {
				got <- err
				return
			}
			got <- errors.New(string(m.Data))
		}, PublisherEvents()); err != nil {
			t.Fatal(err)
		}
		publish(t, ctx, pub, "hello")
		next := func() error {
			select {
			case err := <-got:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var e *PublisherEvent
		if err := next(); !errors.As(err, &e) || e.Kind != events.PublisherUp || e.Publisher != pubBus.ID() {
			t.Errorf("first delivery: %v, want publisher up", err)
		}
		if err := next(); err.Error() != "hello" {
			t.Errorf("second delivery: %v, want hello", err)
		}
	})
}
