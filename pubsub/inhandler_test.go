package pubsub

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A handler that takes seconds is reported by its bus while it runs, after 1, 2, 4 … s, and when it has returned.
// OnEvent is reported in the log.
func TestHandlerThatSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		url := memURL(t)
		var all eventLog
		var slow *Bus
		slow = openBus(t, Config{Wait: WaitPark, OnEvent: func(e events.Event) {
			if e.Kind == events.HandlerSlow && len(slow.Stats().Groups) > 0 {
				t.Error("groups are read while the handler may change them")
			}
			all.event(e)
		}}, url)
		bus := openBus(t, Config{Wait: WaitPark, Linger: -1}, url)
		running, began := make(chan struct{}), time.Now()
		if _, err := slow.Handle("x.slow", func(m Message, err error) {
			if string(m.Data) == "sleep" {
				began = time.Now()
				close(running)
				time.Sleep(5 * time.Second)
			}
		}, Topics("x.other")); err != nil {
			t.Fatal(err)
		}
		pub := publisher(t, bus, "x.slow")
		wait(t, ctx, pub, 1)
		publish(t, ctx, pub, "quick")
		publish(t, ctx, pub, "sleep")
		<-running
		time.Sleep(4500 * time.Millisecond)
		var reported []time.Duration
		for _, e := range all.of(events.HandlerSlow) {
			reported = append(reported, e.For.Round(10*time.Millisecond))
			if !slices.Equal(e.Topics, []string{"x.slow"}) {
				t.Errorf("event %v, want topic x.slow", e)
			}
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}; !slices.Equal(reported, want) {
			t.Errorf("reported after %v, want %v", reported, want)
		}
		if back := all.of(events.HandlerReturned); len(back) > 0 {
			t.Errorf("events %v while the handler runs, want none", back)
		}
		time.Sleep(time.Second)
		if back := all.of(events.HandlerReturned); len(back) != 1 || back[0].For.Round(10*time.Millisecond) != 5*time.Second || time.Since(began) < 5*time.Second {
			t.Errorf("events after the handler has returned: %v, want one after 5 s", back)
		}
		time.Sleep(time.Minute)
		if n := len(all.of(events.HandlerSlow)); n != len(reported) {
			t.Errorf("%d more events of an idle bus, want none", n-len(reported))
		}
	})
}

// Calls that wait for the bus return ErrInHandler immediately in a handler and in OnEvent; other goroutines may make
// them meanwhile, and the bus still works.
func testCallsInHandler(t *testing.T, url string) {
	ctx := testContext(t)
	inEvent := make(chan map[string]error, 1)
	var bus *Bus
	var sub, read *Subscription
	var full *Publisher
	calls := func() map[string]error {
		errs := make(map[string]error)
		_, errs["Subscribe"] = bus.Subscribe("y")
		_, errs["Handle"] = bus.Handle("y", func(Message, error) {})
		errs["Close of the subscription"] = sub.Close()
		_, errs["Next"] = read.Next(ctx)
		errs["Close"] = bus.Close()
		errs["Shutdown"] = bus.Shutdown(ctx)
		errs["WaitSubscribers"] = full.WaitSubscribers(ctx, 100)
		if n := len(bus.Stats().Groups); n == 0 {
			errs["Stats"] = errors.New("no groups")
		}
		return errs
	}
	ready := make(chan struct{})
	bus = openBus(t, Config{OnEvent: func(e events.Event) {
		if e.Kind == events.PublisherUp {
			<-ready
			select {
			case inEvent <- calls():
			default:
			}
		}
	}}, url)
	inHandler, again := make(chan map[string]error, 1), make(chan struct{})
	blocked, other := make(chan struct{}), make(chan error, 1)
	var err error
	if sub, err = bus.Handle("x", func(m Message, err error) {
		switch string(m.Data) {
		case "calls":
			inHandler <- calls()
		case "blocks":
			close(blocked)
			<-other // the other goroutines wait for the loop, not for this handler
		case "again":
			close(again)
		}
	}); err != nil {
		t.Fatal(err)
	}
	read, full = subscribe(t, bus, "z"), publisher(t, bus, "x")
	close(ready)
	pubBus := openBus(t, Config{}, url)
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "calls")
	for what, errs := range map[string]chan map[string]error{"OnEvent": inEvent, "handler": inHandler} {
		select {
		case all := <-errs:
			for call, err := range all {
				if !errors.Is(err, ErrInHandler) {
					t.Errorf("%s in %s: error %v, want %v", call, what, err, ErrInHandler)
				}
			}
		case <-ctx.Done():
			t.Fatalf("the calls in %s do not return", what)
		}
	}
	publish(t, ctx, pub, "blocks")
	<-blocked
	done := make(chan error, 1)
	go func() { _, err := bus.Subscribe(inGroupOf(bus, "x")); done <- err }()
	select {
	case err := <-done:
		t.Fatalf("Subscribe while a handler runs returned %v, want it to wait", err)
	case <-time.After(20 * time.Millisecond):
	}
	other <- nil
	if err := <-done; err != nil {
		t.Errorf("Subscribe while a handler runs: %v", err)
	}
	publish(t, ctx, pub, "again")
	select {
	case <-again:
	case <-ctx.Done():
		t.Error("the bus does not work after that")
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
}

// A publisher of the handler's own bus does not wait for room in a handler, because the bus could not learn of room
// meanwhile.
func TestPublishInHandlerDoesNotWait(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	bus := openBus(t, Config{WindowBytes: 64 << 10, Linger: -1}, url)
	subBus := openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	subscribe(t, subBus, "out") // not read
	out := publisher(t, bus, "out")
	wait(t, ctx, out, 1)
	got := make(chan error, 1)
	if _, err := bus.Handle("in", func(Message, error) {
		for range 10_000 {
			if err := out.Publish(context.Background(), make([]byte, 1000)); err != nil {
				got <- err
				return
			}
		}
		got <- nil
	}); err != nil {
		t.Fatal(err)
	}
	pub := publisher(t, subBus, "in")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "go")
	select {
	case err := <-got:
		if !errors.Is(err, ErrInHandler) {
			t.Errorf("Publish without room: %v, want %v", err, ErrInHandler)
		}
	case <-ctx.Done():
		t.Fatal("Publish in a handler does not return")
	}
}

// The core is never re-entered from within a handler, whatever it calls and however long it runs: packets that arrive
// meanwhile are handled after it has returned.
func TestCoreIsNotReenteredFromHandlers(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		const n = 300
		var got, within atomic.Int64
		var pub *Publisher
		done := make(chan struct{})
		bus := openBus(t, Config{Loopback: true}, url)
		if _, err := bus.Handle("x", func(m Message, err error) {
			if err != nil {
				t.Errorf("handler received the error %v, want none", err)
			}
			pcs := make([]uintptr, 256)
			frames, entered := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)]), 0
			for more := true; more; {
				var f runtime.Frame
				if f, more = frames.Next(); strings.HasSuffix(f.Function, "reliable.(*Receiver).Handle") {
					entered++
				}
			}
			if entered > 1 {
				t.Errorf("message %d: the receiver was entered %d times", got.Load(), entered)
			}
			within.Add(int64(entered))
			i := got.Add(1)
			if i%40 == 0 {
				time.Sleep(3 * time.Millisecond) // longer than the loop's time slice for handlers
			}
			if i <= n-20 { // each handler call publishes one more
				if err := pub.Publish(ctx, m.Data); err != nil {
					t.Error(err)
				}
				pub.Flush(ctx)
			} else if i == n {
				close(done)
			}
		}); err != nil {
			t.Fatal(err)
		}
		pub = publisher(t, bus, "x")
		wait(t, ctx, pub, 1)
		for range 20 { // 20 messages are in flight at any time
			publish(t, ctx, pub, strings.Repeat("x", 200))
		}
		select {
		case <-done:
		case <-ctx.Done():
			t.Fatalf("%d messages handled, want more within the test's time", got.Load())
		}
		if within.Load() == 0 {
			t.Error("no handler was called from within the receiver: has its name changed?")
		}
	})
}
