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

// After a standstill, here in a handler, a subscriber has unread packets of all publishers. It reports none of them
// lost, however many packets it must read first.
func TestStandstillIsNotSilence(t *testing.T) {
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
				t.Errorf("after the standstill: %v", err)
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
			t.Errorf("%d standstills, want at least %d", stood, publishers)
		}
	})
}

// Packets that were unread during a standstill, here in a handler, are accepted although they are older than the limit:
// sealed and signed packets of its groups, and replies. No clock difference is reported. docs/protocol §27.6, §29.6.
func TestStandstillIsNotAClockFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		key := signingKey(t)
		url := withKeys(memURL(t), keyFile(t, newKey(t)))
		for name, trusted := range map[string]TrustProvider{"sealed": nil, "sealed and signed": trust(t, trustLine("x", key))} {
			patient := Config{Wait: WaitPark, Silence: time.Hour, StallLimit: -1, OnEvent: func(e events.Event) {
				if e.Kind == events.PacketsUnreadable {
					t.Errorf("%s: unreadable packets: %v", name, e.Err)
				}
			}}
			with := patient
			with.Trust = trusted
			b := openBus(t, with, url)
			with = patient
			with.Sign = key
			a := openBus(t, with, url)
			const messages = 100
			var got atomic.Int64
			if _, err := b.Handle("x", func(_ Message, err error) {
				switch {
				case err != nil:
					t.Errorf("%s: handler received the error %v", name, err)
				case got.Add(1) == 1:
					time.Sleep(6 * time.Minute)
				}
			}); err != nil {
				t.Fatal(err)
			}
			subscribe(t, a, "y")
			there := publisher(t, b, "y")
			wait(t, ctx, there, 1)
			pub := publisher(t, a, "x")
			wait(t, ctx, pub, 1)
			for range messages {
				if err := pub.Publish(ctx, make([]byte, 100)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(7 * time.Minute)
			if n := got.Load(); n != messages {
				t.Errorf("%s: %d messages have arrived, want %d", name, n, messages)
			}
			for who, bus := range map[string]*Bus{"the bus with the standstill": b, "the other": a} {
				if s := bus.Stats(); s.Seal.Stale+s.Sign.Stale > 0 {
					t.Errorf("%s: %s: packets refused for their time: %d sealed, %d signed, want none", name, who, s.Seal.Stale, s.Sign.Stale)
				}
			}
			a.Close()
			b.Close()
		}
	})
}
