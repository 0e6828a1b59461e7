package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A subscriber that stands still, in a handler here, finds the packets of all
// publishers unread afterwards. It calls none of them lost, however many wait
// before theirs.
func TestStandingStillIsNobodysSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		url := memURL(t)
		sub := openBus(t, Config{Logger: quiet, Wait: WaitPark}, url)
		const publishers, messages, still = 3, 2000, 3 * time.Second
		var got [publishers]atomic.Int64
		stood := 0
		if _, err := sub.Handle("t.0", func(m Message, err error) {
			var ev *PublisherEvent
			switch {
			case errors.As(err, &ev) && ev.Kind == events.PublisherUp || errors.As(err, &ev) && ev.Kind == events.PublisherEnded:
			case err != nil:
				t.Errorf("standing still costs: %v", err)
			default:
				n := &got[m.Topic[2]-'0']
				if n.Add(1)%700 == 0 {
					stood++
					time.Sleep(still)
				}
			}
		}, Topics("t.1", "t.2"), PublisherEvents()); err != nil {
			t.Fatal(err)
		}
		for i := range publishers {
			b := openBus(t, Config{Logger: quiet, Wait: WaitPark, Linger: time.Minute, Silence: time.Minute}, url)
			p := publisher(t, b, fmt.Sprintf("t.%d", i))
			go func() {
				defer b.Close()
				if err := p.WaitSubscribers(ctx, 1); err != nil {
					t.Error(err)
				}
				for range messages {
					if err := p.Publish(ctx, make([]byte, 100)); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(2 * time.Millisecond)
				}
			}()
		}
		for i := range got {
			for got[i].Load() < messages && ctx.Err() == nil && !t.Failed() {
				time.Sleep(10 * time.Millisecond)
			}
		}
		if stood < publishers {
			t.Errorf("it stood still %d times", stood)
		}
	})
}
