package pubsub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// bySlowHandler publishes n messages of size bytes to a handler that takes cost(i) for message i, on a bus with
// configuration c. No message may be lost, no bus found silent or lost, also by a third bus.
func bySlowHandler(t *testing.T, n, size int, c Config, cost func(i int) time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		url := memURL(t)
		reported := func(who string, kind events.Kind) func(events.Event) {
			return func(e events.Event) {
				if e.Kind == kind {
					t.Errorf("%s: event %v, want none of this kind", who, e)
				}
			}
		}
		c.Logger, c.Wait = quiet, WaitPark
		var handled atomic.Int64
		slow := openBus(t, c, url)
		if _, err := slow.Handle("x", func(m Message, err error) {
			if err != nil {
				t.Errorf("after %d messages: %v", handled.Load(), err)
				return
			}
			time.Sleep(cost(int(handled.Load())))
			handled.Add(1)
		}); err != nil {
			t.Fatal(err)
		}
		publisher(t, slow, "y")
		third := openBus(t, Config{Logger: quiet, Wait: WaitPark, OnEvent: reported("third bus", events.PublisherLost)}, url)
		subscribe(t, third, "y")

		bus := openBus(t, Config{Logger: quiet, Wait: WaitPark, Linger: time.Minute, OnEvent: reported("publisher", events.SubscriberSilent)}, url)
		pub := publisher(t, bus, "x")
		wait(t, ctx, pub, 1)
		msg := make([]byte, size)
		for i := range n {
			if err := pub.Publish(ctx, msg); err != nil {
				t.Fatalf("publishing message %d: %v", i, err)
			}
		}
		if err := pub.Drain(ctx); err != nil {
			t.Error(err)
		}
		for int(handled.Load()) < n && ctx.Err() == nil && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		if st := bus.Stats(); len(st.Publications) == 0 || st.Publications[0].ReceiversSilent > 0 {
			t.Errorf("publications %+v, want no silent subscriber", st.Publications)
		}
	})
}

// A bus with slow handlers keeps sending statuses with its position: its publishers wait for it. docs/protocol §11.3.
func TestSlowHandlerSendsStatuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		n, size int
		cost    func(int) time.Duration
	}{
		// Many thousand messages in each batch.
		{"fast", 200_000, 64, func(int) time.Duration { return 100 * time.Microsecond }},
		// Many hundred messages in each packet.
		{"slow", 3_000, 8, func(int) time.Duration { return 10 * time.Millisecond }},
		{"sudden", 20_000, 8, func(i int) time.Duration {
			if i%9000 < 8000 {
				return 0
			}
			return 1500 * time.Microsecond
		}},
	} {
		t.Run(c.name, func(t *testing.T) { bySlowHandler(t, c.n, c.size, Config{}, c.cost) })
	}
}

// The same in real time, with other load on the processor.
func TestSlowHandlerLive(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	if testing.Short() {
		t.Skip("a slow handler in real time: skipped with -short")
	}
	ctx := testContext(t)
	url := memURL(t)
	slow := openBus(t, Config{}, url)
	bus := openBus(t, Config{Linger: time.Minute, OnEvent: func(e events.Event) {
		if e.Kind == events.SubscriberSilent {
			t.Errorf("event %v, want no silent subscriber", e)
		}
	}}, url)
	const n = 25_000
	handled, done := 0, make(chan struct{})
	if _, err := slow.Handle("x", func(m Message, err error) {
		if err != nil {
			t.Error(err)
		}
		for began := time.Now(); time.Since(began) < 100*time.Microsecond; {
		}
		if handled++; handled == n {
			close(done)
		}
	}); err != nil {
		t.Fatal(err)
	}
	pub := publisher(t, bus, "x")
	wait(t, ctx, pub, 1)
	msg := make([]byte, 64)
	for range n {
		if err := pub.Publish(ctx, msg); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Drain(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Error("not all messages arrived")
	}
}

// Repairs may lie unread behind earlier packets. A bus with slow handlers does not give packets up before it has read
// these.
func TestRepairsBehindSlowHandler(t *testing.T) {
	// A thousand packets are unread or wait for a repair: 12 s of handler time.
	bySlowHandler(t, 4000, 8000, Config{Faults: "loss=0.05,seed=1"}, func(int) time.Duration { return 12 * time.Millisecond })
}

// Calls on a bus with a slow handler wait neither for all received packets to be handled, nor for the rest of the
// current packet.
func TestSlowHandlerYieldsToCalls(t *testing.T) {
	for _, c := range []struct{ n, size int }{{400, 8000}, {700, 8}} { // in many packets, and in one
		slowHandlerYieldsToCalls(t, c.n, c.size)
	}
}

func slowHandlerYieldsToCalls(t *testing.T, n, size int) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		url := memURL(t)
		slow, bus := openBus(t, Config{Wait: WaitPark}, url), openBus(t, Config{Wait: WaitPark, Linger: -1}, url)
		handled := 0
		sub, err := slow.Handle("x", func(m Message, err error) {
			if err != nil && !errors.Is(err, ErrGap) {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
			handled++
		})
		if err != nil {
			t.Fatal(err)
		}
		pub := publisher(t, bus, "x")
		wait(t, ctx, pub, 1)
		for range n {
			publish(t, ctx, pub, string(make([]byte, size)))
		}
		time.Sleep(10 * time.Millisecond)
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
		if handled == 0 || handled > 100 {
			t.Errorf("Close returns after %d messages are handled, want 1 to 100", handled)
		}
	})
}

// A subscription that is never read stays behind, although it holds no publisher up while the window has room: it is
// reported by name, and released. docs/protocol §8.9.
func slowSubscriberEvent(t *testing.T, url string) {
	ctx := testContext(t)
	slow := make(chan events.Event, 10)
	logged := make(chan string, 10)
	var log logLines
	pubBus := openBus(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), SlowBehind: 20, SlowFor: 10 * time.Millisecond, OnEvent: func(e events.Event) {
		if e.Kind == events.SlowSubscriber {
			logged <- log.String() // the log line comes first
			slow <- e
		}
	}}, url)
	sub := subscribe(t, openBus(t, Config{Name: "sluggish"}, url), "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	for i := range 100 {
		publish(t, ctx, pub, fmt.Sprint(i))
		if err := pub.Flush(ctx); err != nil { // one packet each
			t.Fatal(err)
		}
	}
	select {
	case e := <-slow:
		if e.Name != "sluggish" || e.Behind <= 20 || e.For < 10*time.Millisecond {
			t.Errorf("event %+v, want sluggish, more than 20 packets behind for at least 10 ms", e)
		}
		said := <-logged
		for _, want := range []string{"level=WARN", "stayed too far behind", "name=sluggish", fmt.Sprint("for=", e.For), fmt.Sprint("behind_packets=", e.Behind)} {
			if !strings.Contains(said, want) {
				t.Errorf("the log lacks %q: %s", want, said)
			}
		}
	case <-ctx.Done():
		t.Fatal("no event")
	}
	if r := pub.Receivers(); len(r) != 1 || !r[0].Released || r[0].Name != "sluggish" || r[0].HeldFor < 10*time.Millisecond || r[0].Behind <= 20 {
		t.Errorf("subscribers %+v, want sluggish alone, released, more than 20 packets behind for at least 10 ms", r)
	}
	for i := range 100 { // all messages are in the window
		want(t, ctx, sub, fmt.Sprint(i))
	}
	for pub.Receivers()[0].Released {
		if err := ctx.Err(); err != nil {
			t.Fatal("it has caught up, and is still released")
		}
		time.Sleep(time.Millisecond)
	}
}
