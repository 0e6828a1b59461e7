package engine

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Time in which the process is stopped during a handler is not reported.
func TestHandlerAcrossAStop(t *testing.T) {
	for _, c := range []struct {
		before, after time.Duration
		slow          []time.Duration // reported while the handler runs
		returned      time.Duration
	}{
		{5 * time.Millisecond, 5 * time.Millisecond, nil, 0},
		{700 * time.Millisecond, 5 * time.Millisecond, nil, 0},
		{5 * time.Millisecond, 1100 * time.Millisecond, nil, 0},
		{1600 * time.Millisecond, 5 * time.Millisecond, []time.Duration{time.Second}, 1500 * time.Millisecond},
		{1600 * time.Millisecond, 2 * time.Second, []time.Duration{time.Second, 2 * time.Second}, 3350 * time.Millisecond},
	} {
		t.Run(c.before.String()+" "+c.after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				reported := make(map[events.Kind][]time.Duration)
				_, l := newLoop(t, Config{Wait: WaitPark, Events: func(e events.Event) {
					mu.Lock()
					defer mu.Unlock()
					reported[e.Kind] = append(reported[e.Kind], e.For.Round(10*time.Millisecond))
				}})
				h := handlerFuncs{message: func(*reliable.Origin, *topics.Track, uint64, []byte) {
					time.Sleep(c.before)
					w := &l.watchdog
					w.mu.Lock()
					l.clock.start = l.clock.start.Add(-2 * time.Minute) // a stop: the clock advances, timers do not
					w.mu.Unlock()
					time.Sleep(c.after)
				}, other: func(*Delivery) {}}
				subscribeTo(t, l, TopicName{Name: "x", Group: 0}, policyAuto, h)
				_, from := newLoop(t, Config{Wait: WaitPark})
				p, topic := publication(t, from, "x")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
					t.Fatal(err)
				}
				if err := p.Publish(ctx, topic, []byte("m"), true); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				var returned []time.Duration
				if c.returned > 0 {
					returned = append(returned, c.returned)
				}
				if slow, back := reported[events.HandlerSlow], reported[events.HandlerReturned]; !slices.Equal(slow, c.slow) || !slices.Equal(back, returned) {
					t.Errorf("slow %v, returned after %v, want %v and %v", slow, back, c.slow, returned)
				}
			})
		})
	}
}
