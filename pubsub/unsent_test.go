package pubsub

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Close of a bus that a subscriber holds up returns the number of messages never sent: together with those delivered
// they are all that Publish accepted.
func TestCloseCountsUnsentMessages(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{Linger: -1}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	sub := subscribe(t, subBus, "x", PublisherEvents())
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	var err error
	taken := 0
	var publishing sync.WaitGroup
	held := make(chan struct{})
	publishing.Go(func() {
		for ; err == nil; taken++ {
			err = pub.Publish(ctx, make([]byte, 200))
		}
		taken-- // the last message was not accepted
	})
	go func() {
		defer close(held)
		for pubBus.Stats().Publications[0].Blocked != events.ReasonFlow && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	<-held
	closed := pubBus.Close()
	publishing.Wait()
	var unsent *events.UnsentError
	if !errors.As(closed, &unsent) || unsent.Messages == 0 || !errors.Is(err, net.ErrClosed) {
		t.Fatalf("Close: error %v, the last Publish: %v, want an error of unsent messages and %v", closed, err, net.ErrClosed)
	}
	got := 0
	for ended := false; !ended; {
		_, err := sub.Next(ctx)
		var e *PublisherEvent
		switch {
		case err == nil:
			got++
		case errors.As(err, &e):
			ended = e.Kind != events.PublisherUp
		default:
			t.Fatal(err)
		}
	}
	if got+int(unsent.Messages) != taken {
		t.Errorf("%d messages accepted, %d delivered, %d reported as never sent, want no other", taken, got, unsent.Messages)
	}
}

// Sent messages are not reported, received or not.
func TestCloseDoesNotReportSentMessages(t *testing.T) {
	ctx := testContext(t)
	bus := openBus(t, Config{Linger: -1}, memURL(t))
	pub := publisher(t, bus, "x")
	for range 1000 {
		publish(t, ctx, pub, "x")
	}
	if err := bus.Close(); err != nil {
		t.Error(err)
	}
}

// Close of a publisher during or after Close of its bus also returns the number of messages never sent.
func TestPublisherCloseCountsUnsentMessages(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{Linger: -1}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	for pub.TryPublish(make([]byte, 200)) == nil { // until the subscriber, which does not read, has no room
	}
	meanwhile := make(chan error, 1)
	go func() { meanwhile <- pub.Close(ctx) }()
	var all, one *events.UnsentError
	if err := pubBus.Close(); !errors.As(err, &all) || all.Messages == 0 {
		t.Fatalf("Close of the bus: error %v, want one of unsent messages", err)
	}
	for what, err := range map[string]error{"meanwhile": <-meanwhile, "afterwards": pub.Close(ctx)} {
		if !errors.As(err, &one) || one.Messages != all.Messages || !errors.Is(err, net.ErrClosed) {
			t.Errorf("Close %s: error %v, want that of the bus: %v", what, err, all)
		}
	}
}
