package pubsub

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// One message, published, sent, received, delivered and added to Positions, allocates nothing: neither with a
// handler nor read with Next.
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

// Nor does it with any policy for readers that are too slow.
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

// Nor does it by a pattern, from the window on, with a handler in a goroutine of its own, where not
// all are waited for, or over two legs.
func TestWaysToSubscribeAllocateNothing(t *testing.T) {
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
				// A goroutine that gets no processor for a while is passed over, as it asked for.
				if err != nil && !passedOver(err) {
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

// passedOver reports whether err says that messages are lost because they were read too slowly.
func passedOver(err error) bool {
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
				t.Fatal(len(m.Data), err)
			}
		}
	}
	for range 300 { // buffers come into being, and windows grow, with the first messages
		one()
	}
	// Timers, heartbeats and hellos run beside, and allocate at times of their own, the
	// more the longer this takes: of many runs one is without.
	least := testing.AllocsPerRun(100, one)
	for range 300 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(1, one))
	}
	if least > 0 {
		t.Errorf("%v allocations per 100 messages at least, want 0", least)
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
				t.Fatal(name, err)
			}
		}
		if n := testing.AllocsPerRun(1000, func() { f() }); n >= 1 {
			t.Errorf("%s: %v allocations a call, want 0", name, n)
		}
	}
}
