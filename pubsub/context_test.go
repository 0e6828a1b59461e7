package pubsub

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// Every call whose context ends returns an error that matches the context's error and its cause.
func TestContextErrorAndCause(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{Linger: -1, WindowBytes: 64 << 10}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	sub := subscribe(t, subBus, "x") // unread, so it blocks the publisher
	idle := subscribe(t, subBus, "idle")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	for pub.TryPublish(make([]byte, 1000)) == nil {
	}
	large := make([]byte, 1<<20)
	calls := map[string]func(context.Context) error{
		"Open":                          func(ctx context.Context) error { _, err := Open(ctx, url); return err },
		"Publish":                       func(ctx context.Context) error { return pub.Publish(ctx, make([]byte, 1000)) },
		"Publish, large":                func(ctx context.Context) error { return pub.Publish(ctx, large) },
		"PublishBatch":                  func(ctx context.Context) error { _, err := pub.PublishBatch(ctx, [][]byte{large}); return err },
		"Flush":                         pub.Flush,
		"Drain":                         pub.Drain,
		"WaitSubscribers":               func(ctx context.Context) error { return pub.WaitSubscribers(ctx, 2) },
		"Next":                          func(ctx context.Context) error { _, err := idle.Next(ctx); return err },
		"NextBatch":                     func(ctx context.Context) error { _, err := idle.NextBatch(ctx, make([]Message, 2)); return err },
		"Close":                         publisher(t, pubBus, "x").Close,
		"Shutdown, after all the above": pubBus.Shutdown,
	}
	errStop := errors.New("the operator stopped it")
	check := func(name string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || !errors.Is(err, errStop) {
			t.Errorf("%s: %v: matches %v: %v, matches its cause: %v", name, err, want, errors.Is(err, want), errors.Is(err, errStop))
		}
		if errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v matches net.ErrClosed", name, err)
		}
	}
	last := "Shutdown, after all the above"
	for name, call := range calls {
		if name == last {
			continue
		}
		canceled, cancel := context.WithCancelCause(ctx)
		cancel(errStop)
		check(name, call(canceled), context.Canceled)
		late, cancelLate := context.WithTimeoutCause(ctx, 10*time.Millisecond, errStop)
		if name == "Open" {
			<-late.Done() // its error does not depend on waiting
		}
		check(name, call(late), context.DeadlineExceeded)
		cancelLate()
	}
	late, cancelLate := context.WithTimeoutCause(ctx, 10*time.Millisecond, errStop)
	defer cancelLate()
	check(last, calls[last](late), context.DeadlineExceeded)
	sub.Close()
}
