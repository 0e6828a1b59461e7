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

// If the clock of a host is wrong by more than five minutes, packets to and from it are refused, and both sides
// report that repeatedly, with the difference. When the clock is right again, all published messages arrive.
// docs/protocol §27.6, §27.8.
func TestWrongClockOfSealedStream(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	set, err := NewKeySet(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	network := mem.NewNetwork()
	type host struct {
		off      atomic.Int64 // nanoseconds, added to both its wall clock and its monotonic clock
		mu       sync.Mutex
		reported []time.Duration // under mu
	}
	var passed atomic.Int64 // nanoseconds, for both hosts at once, because the reported difference must not change
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
				h.reported = append(h.reported, u.Skew.Round(time.Hour)) // rounded, because a packet may have been sealed a minute before
			}
		}}.OpenTransport(tr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	reported := func(h *host, want ...time.Duration) {
		t.Helper()
		eventually(t, ctx, fmt.Sprint("reported ", want), func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return fmt.Sprint(h.reported) == fmt.Sprint(want)
		})
	}
	sub := subscribe(t, open(&subHost), "x")
	pub := publisher(t, open(&pubHost), "x")
	wait(t, ctx, pub, 1)
	publishAll(t, ctx, pub, 10)
	expectAll(t, ctx, sub, 10)
	pubHost.off.Store(int64(time.Hour))
	publishAll(t, ctx, pub, 10)
	reported(&subHost, time.Hour)
	reported(&pubHost, -time.Hour)
	passed.Store(int64(time.Minute)) // the condition persists
	publishAll(t, ctx, pub, 10)
	reported(&subHost, time.Hour, time.Hour)
	pubHost.off.Store(0)
	publishAll(t, ctx, pub, 10)
	for range 3 {
		expectAll(t, ctx, sub, 10)
	}
}
