package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/sealed"
)

// A clock of a host that is set wrong by more than five minutes ends what it is sent and what it sends, which both sides are told, with the
// difference, and again while it lasts. When the clock is set right, all that was published comes. docs/protocol §27.6, §27.8.
func TestClockIsSetWhileASealedStreamRuns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	set, err := NewKeySet(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	network := mem.NewNetwork()
	type host struct {
		off  atomic.Int64 // nanoseconds, of both its clocks: that which nobody sets goes with the other here
		mu   sync.Mutex
		told []time.Duration // under mu
	}
	var passed atomic.Int64 // nanoseconds, for both hosts at once: one after the other would change the difference that is told
	var pubHost, subHost host
	open := func(h *host) *Bus {
		m, err := mem.Open(mem.Config{Network: network, Groups: 1})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := sealed.New(m, sealed.Config{Keys: StaticKeys(set), Now: func() time.Time {
			return time.Now().Add(time.Duration(passed.Load() + h.off.Load()))
		}})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Config{Logger: quiet, Silence: time.Minute, RecoveryDeadline: time.Minute, OnEvent: func(e events.Event) {
			var u *UnreadableError
			if errors.As(e.Err, &u) && u.Reason == transport.UnreadableClock {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.told = append(h.told, u.Skew.Round(time.Hour)) // a packet on its way was sealed a minute before
			}
		}}.OpenTransport(tr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	told := func(h *host, want ...time.Duration) {
		t.Helper()
		eventually(t, ctx, fmt.Sprint("it is told ", want), func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return fmt.Sprint(h.told) == fmt.Sprint(want)
		})
	}
	sub := subscribe(t, open(&subHost), "x")
	pub := publisher(t, open(&pubHost), "x")
	wait(t, ctx, pub, 1)
	publishAll(t, ctx, pub, 10)
	expectAll(t, ctx, sub, 10)
	pubHost.off.Store(int64(time.Hour))
	publishAll(t, ctx, pub, 10)
	told(&subHost, time.Hour)
	told(&pubHost, -time.Hour)
	passed.Store(int64(time.Minute)) // it lasts
	publishAll(t, ctx, pub, 10)
	told(&subHost, time.Hour, time.Hour)
	pubHost.off.Store(0)
	publishAll(t, ctx, pub, 10)
	for range 3 {
		expectAll(t, ctx, sub, 10)
	}
}
