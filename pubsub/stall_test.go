package pubsub

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// eventLog collects the events of a bus.
type eventLog struct {
	mu  sync.Mutex
	all []events.Event // under mu
}

func (h *eventLog) event(e events.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

// of returns the events of a kind so far.
func (h *eventLog) of(kind events.Kind) (some []events.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.all {
		if e.Kind == kind {
			some = append(some, e)
		}
	}
	return some
}

// await waits for an event of a kind.
func (h *eventLog) await(t *testing.T, ctx context.Context, kind events.Kind) events.Event {
	t.Helper()
	for {
		if all := h.of(kind); len(all) > 0 {
			return all[len(all)-1]
		}
		if ctx.Err() != nil {
			t.Fatalf("no event %q", kind)
		}
		time.Sleep(time.Millisecond)
	}
}

// awaitOf waits for an event of a kind that names a subscriber.
func (h *eventLog) awaitOf(t *testing.T, ctx context.Context, kind events.Kind, name string) {
	for !slices.ContainsFunc(h.of(kind), func(e events.Event) bool { return e.Name == name }) {
		if ctx.Err() != nil {
			t.Errorf("no event %q names %s", kind, name)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// An unread subscription blocks the publisher. Both sides report it by name; it is released; the publisher and
// other subscribers continue; and when it resumes reading it gets exactly one exact gap. docs/protocol §8.7.
func TestSubscriberThatDoesNotRead(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		// The stall is reported after a second, or some seconds later on a busy host.
		const limit = 4 * time.Second
		var publishing, stopped, neighbour eventLog
		pubBus := openBus(t, Config{StallLimit: limit, WindowBytes: 256 << 10, OnEvent: publishing.event}, url)
		stopBus := openBus(t, Config{Name: "stopped", ReceiveWindowBytes: 256 << 10, OnEvent: stopped.event}, url)
		nextBus := openBus(t, Config{OnEvent: neighbour.event}, url)
		sub := subscribe(t, stopBus, "x", Topics("y"))
		all := make(chan uint64, 1)
		const n = 4000
		if _, err := nextBus.Handle("x", func(m Message, err error) {
			if err != nil {
				t.Error(err)
			}
			if m.Number == n-1 {
				all <- m.Number
			}
		}); err != nil {
			t.Fatal(err)
		}
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 2)
		published, tried := 0, 0 // calls with an error that names the subscriber
		send := func(i int) {
			msg := make([]byte, 500)
			binary.LittleEndian.PutUint64(msg, uint64(i))
			for ctx.Err() == nil {
				late, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				err := pub.Publish(late, msg)
				cancel()
				if err == nil {
					return
				}
				var held *events.FlowError
				if !errors.As(err, &held) && errors.Is(err, context.DeadlineExceeded) {
					continue // the subscriber was just released, or this host is busy
				}
				if !errors.As(err, &held) || !errors.Is(err, events.ErrBackPressure) || !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("message %d: error %v, want a BackPressureError and %v", i, err, context.DeadlineExceeded)
				}
				if held.Subscriber == 0 || held.Address == "" || held.For <= 0 || held.Behind == 0 ||
					!strings.Contains(err.Error(), held.Name+" at "+held.Address) || !strings.Contains(err.Error(), "pubsub: publish") {
					t.Fatalf("BackPressureError %+v (%v), want the subscriber, its address, duration and packets behind", held, err)
				}
				if held.Name != "stopped" {
					continue // the other subscriber, on a host so busy that its statuses were late
				}
				published++
				var pressure *events.BackPressureError
				switch err := pub.TryPublish(msg); {
				case err == nil: // the subscriber was released meanwhile
					return
				case !errors.As(err, &pressure):
					t.Fatalf("TryPublish: error %v, want none or a BackPressureError", err)
				case pressure.Subscriber == held.Subscriber: // otherwise the subscriber was just released
					tried++
				}
			}
			t.Fatalf("message %d was not published in time", i)
		}
		for i := range n {
			send(i)
		}
		if published == 0 || tried == 0 {
			t.Errorf("errors of %d calls of Publish and %d of TryPublish named the subscriber, want some of each", published, tried)
		}
		stall := publishing.await(t, ctx, events.PublisherStalled)
		let := publishing.await(t, ctx, events.SubscriberReleased)
		resumed := publishing.await(t, ctx, events.PublisherResumed)
		if stall.Name != "stopped" || stall.For < time.Second || stall.Behind == 0 || stall.Address == "" || let.Subscriber != stall.Subscriber ||
			let.For < limit || resumed.For < let.For {
			t.Errorf("events %v; %v; %v, want the subscriber stopped at least 1 s, then released, then the publisher resumed", stall, let, resumed)
		}
		select {
		case <-all:
		case <-ctx.Done():
			t.Fatal("the other subscriber has not received everything")
		}
		holds, released := stopped.await(t, ctx, events.HoldsPublishersUp), stopped.await(t, ctx, events.ReleasedByPublisher)
		unread := stopped.await(t, ctx, events.SubscriptionNotRead)
		for _, e := range []events.Event{holds, released, unread} {
			if !slices.Equal(e.Topics, []string{"x", "y"}) || e.Publisher != pubBus.ID() || e.For < time.Second || e.Behind == 0 {
				t.Errorf("event %v (%+v), want topics x and y of publisher %v, behind for at least 1 s", e, e, pubBus.ID())
			}
		}
		if other := neighbour.of(events.HoldsPublishersUp); len(other) > 0 {
			t.Errorf("the other subscriber has events %v, want none", other)
		}

		gaps := 0
		var last GapError
		next := uint64(0)
		read := func(until uint64) {
			for next < until {
				m, err := sub.Next(ctx)
				var gap *GapError
				switch {
				case errors.As(err, &gap):
					if gap.First != next || gap.Count == 0 || gap.Cause != events.CauseReleased {
						t.Fatalf("gap %+v, want one of cause %v that begins at %d", gap, events.CauseReleased, next)
					}
					gaps++
					last = *gap
					next += gap.Count
				case err != nil:
					t.Fatalf("after %d messages: %v", next, err)
				case m.Number != next || binary.LittleEndian.Uint64(m.Data) != next:
					t.Fatalf("message %d, want %d", m.Number, next)
				default:
					next++
				}
			}
		}
		read(n)
		if gaps == 0 {
			t.Error("no gap")
		}
		for { // until the publisher waits for it again
			if i := slices.IndexFunc(pub.Receivers(), func(r stats.Subscriber) bool { return r.Name == "stopped" && !r.Released }); i >= 0 {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("subscribers %+v do not reach the wanted state", pub.Receivers())
			}
			time.Sleep(time.Millisecond)
		}
		gaps = 0
		for i := range 100 {
			send(n + i)
		}
		// Its queue may still contain packets from before its release, and heartbeats that report the release: on a busy
		// host they may cause one more gap.
		if read(n + 100); gaps > 1 {
			t.Errorf("%d gaps in %d messages while it reads, want at most 1; the last: %+v", gaps, n, last)
		}
	})
}

// If the context of Drain ends, the error names a subscriber that is behind, although none blocks the publisher.
func TestDrainNamesSubscribersBehind(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus := openBus(t, Config{Linger: -1}, url)
	// A handler that does not return keeps its bus from receiving packets.
	busy, done := make(chan struct{}), make(chan struct{})
	defer close(done)
	slow := openBus(t, Config{Name: "busy"}, url)
	if _, err := slow.Handle("x", func(m Message, err error) {
		if m.Number == 0 {
			close(busy)
			<-done
		}
	}); err != nil {
		t.Fatal(err)
	}
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "first")
	<-busy
	publish(t, ctx, pub, "second")
	late, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	err := pub.Drain(late)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, events.ErrBackPressure) ||
		!strings.Contains(err.Error(), "1 of 1 subscribers do not have everything; busy at mem://") {
		t.Errorf("Drain: error %v, want %v, with the subscriber busy named", err, context.DeadlineExceeded)
	}
}
