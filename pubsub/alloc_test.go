package pubsub

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Publishing, sending, receiving and delivering a message and adding it to Positions allocates nothing, with a
// handler and with Next.
func TestNoAllocationPerMessage(t *testing.T) {
	eachFabricInTurn(t, func(t *testing.T, url string) {
		pubBus, subBus := openBus(t, Config{WindowBytes: 1 << 20}, url), openBus(t, Config{}, url)
		var handled atomic.Uint64
		var places Positions
		if _, err := subBus.Handle("x", func(m Message, err error) {
			if err != nil {
				t.Error(err)
			}
			places.Add(m, err)
			handled.Add(1)
		}); err != nil {
			t.Fatal(err)
		}
		checkAllocations(t, pubBus, subscribe(t, subBus, "x"), "x")
		if handled.Load() == 0 {
			t.Error("the handler was never called")
		}
	})
}

// The same holds with each policy for slow consumers.
func TestSlowPoliciesAllocateNothing(t *testing.T) {
	testenv.Slow(t)
	for _, p := range []SlowPolicy{SlowBlock, SlowGap, SlowLatest, SlowEvict} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			url := memURL(t)
			pubBus, subBus := openBus(t, Config{WindowBytes: 1 << 20}, url), openBus(t, Config{}, url)
			checkAllocations(t, pubBus, subscribe(t, subBus, "x", SlowConsumer(p)), "x")
		})
	}
}

// The same holds for a pattern, From(Window), a handler with its own goroutine, a quorum, and two legs.
func TestSubscribeOptionsAllocateNothing(t *testing.T) {
	testenv.Slow(t)
	for _, c := range []struct {
		name  string
		topic string
		flow  FlowControl
		legs  bool
		how   []SubscribeOption
	}{
		{"pattern", "md.*.x", FlowMin, false, nil},
		{"patterns that overlap", "md.>", FlowMin, false, []SubscribeOption{Topics("*.a.x", "md.a.x")}},
		{"from the window", "md.a.x", FlowMin, false, []SubscribeOption{From(Window)}},
		{"pattern from the window", "md.>", FlowMin, false, []SubscribeOption{From(Window)}},
		{"quorum", "md.a.x", FlowQuorum(1), false, nil},
		{"two legs", "md.a.x", FlowMin, true, nil},
		{"pattern over two legs", "md.>", FlowMin, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			urls := []string{memURL(t)}
			if c.legs {
				urls = pair(memURL, t)
			}
			pubBus, subBus := openLegs(t, Config{FlowControl: c.flow, WindowBytes: 1 << 20}, urls...), openLegs(t, Config{}, urls...)
			var handled atomic.Uint64
			if _, err := subBus.Handle(c.topic, func(m Message, err error) {
				// A goroutine that gets no processor for a while has gaps, as its policy says.
				if err != nil && !isSlowGap(err) {
					t.Error(err)
				}
				handled.Add(1)
			}, append([]SubscribeOption{SlowConsumer(SlowGap)}, c.how...)...); err != nil {
				t.Fatal(err)
			}
			checkAllocations(t, pubBus, subscribe(t, subBus, c.topic, c.how...), "md.a.x")
			if handled.Load() == 0 {
				t.Error("the handler was never called")
			}
		})
	}
}

// isSlowGap reports whether err is a gap because of a slow reader.
func isSlowGap(err error) bool {
	gap := (*GapError)(nil)
	return errors.As(err, &gap) && gap.Cause == events.CauseSlowConsumer
}

// checkAllocations publishes messages, reads them and fails if that allocates.
func checkAllocations(t *testing.T, pubBus *Bus, sub *Subscription, topic string) {
	ctx := testContext(t)
	pub := publisher(t, pubBus, topic)
	wait(t, ctx, pub, 1)
	msg := make([]byte, 64)
	one := func() {
		for range 100 {
			if err := pub.Publish(ctx, msg); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			if m, err := sub.Next(ctx); err != nil || len(m.Data) != 64 {
				t.Fatalf("message of %d bytes, error %v, want 64 bytes", len(m.Data), err)
			}
		}
	}
	for range 300 { // the first messages allocate buffers and grow windows
		one()
	}
	// Timers, heartbeats and hellos allocate in the background, at any time: with many runs at least one has no such
	// allocation.
	fewest := testing.AllocsPerRun(100, one)
	for range 300 {
		if fewest == 0 {
			break
		}
		fewest = min(fewest, testing.AllocsPerRun(1, one))
	}
	if fewest > 0 {
		t.Errorf("%v allocations per 100 messages at least, want 0", fewest)
	}
}

func TestPublishDoesNotAllocateForItsTypes(t *testing.T) {
	ctx := testContext(t)
	bus := openBus(t, Config{}, memURL(t))
	pub := publisher(t, bus, "x")
	msg := make([]byte, 100)
	batch := [][]byte{msg, msg, msg}
	for name, f := range map[string]func() error{
		"Publish":      func() error { return pub.Publish(ctx, msg) },
		"TryPublish":   func() error { return pub.TryPublish(msg) },
		"PublishBatch": func() error { _, err := pub.PublishBatch(ctx, batch); return err },
		"Flush":        func() error { return pub.Flush(ctx) },
	} {
		for range 2000 {
			if err := f(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := testing.AllocsPerRun(1000, func() { f() }); n >= 1 {
			t.Errorf("%s: %v allocations a call, want 0", name, n)
		}
	}
}
