package pubsub

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Concurrent publishers on one topic: each publisher's messages arrive in its order, complete and once, whether small
// or of many packets, one by one or in batches.
func TestPublishersInOrder(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		sub := subscribe(t, subBus, "x")
		const writers = 6
		each := fewer(3000)
		batches := [writers]int{1, 1, 1, 7, 50, 50} // messages in each call
		var publishers [writers]*Publisher
		for w := range publishers {
			publishers[w] = publisher(t, pubBus, "x")
		}
		wait(t, ctx, publishers[0], 1)
		var wg sync.WaitGroup
		for w, p := range publishers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				var batch [][]byte
				for i := range each {
					pad := i % 40
					if i%500 == 499 {
						pad = 5000 // several packets
					}
					msg := fmt.Appendf(nil, "%d %d %0*d", w, i, pad, 0)
					var err error
					if batches[w] == 1 {
						err = p.Publish(ctx, msg)
					} else if batch = append(batch, msg); len(batch) == batches[w] || i == each-1 {
						_, err = p.PublishBatch(ctx, batch)
						batch = batch[:0]
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		var next [writers]int
		for n := range uint64(writers * each) {
			m, err := sub.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var w, i int
			if _, err := fmt.Sscanf(string(m.Data), "%d %d", &w, &i); err != nil || i != next[w] || m.Number != n {
				t.Fatalf("message %d is %.20q, error %v, want number %d of its publisher", m.Number, m.Data, err, next[w])
			}
			next[w]++
		}
		wg.Wait()
	})
}

// Messages in an open packet are sent when their publisher pauses, when another one flushes, and when the bus is
// closed.
func TestPublisherPauses(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		sub := subscribe(t, subBus, "x")
		a, b := publisher(t, pubBus, "x"), publisher(t, pubBus, "x")
		wait(t, ctx, b, 1)
		n := 0
		burst := func(size int) {
			for range size {
				if err := a.Publish(ctx, fmt.Append(nil, n)); err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
		got := 0
		for round := range 300 {
			burst(1 + round%37)
			switch round % 3 {
			case 0: // no call
			case 1:
				if err := b.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := a.Drain(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for ; got < n; got++ {
				want(t, ctx, sub, fmt.Sprint(got))
			}
		}
		burst(20)
		done := make(chan error)
		go func() { done <- pubBus.Close() }()
		for ; got < n; got++ {
			want(t, ctx, sub, fmt.Sprint(got))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := a.Publish(ctx, nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("publishing on a closed bus: error %v, want %v", err, net.ErrClosed)
		}
	})
}

// A bus is closed while publishers run: they get an error, and none writes into freed memory.
func TestCloseUnderPublishers(t *testing.T) {
	testenv.Slow(t)
	eachFabric(t, func(t *testing.T, url string) {
		for range fewer(20) {
			bus, err := Config{Logger: quiet, Linger: -1}.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			begun := make(chan struct{}, 3)
			for range 3 {
				p := publisher(t, bus, "x")
				wg.Add(1)
				go func() {
					defer wg.Done()
					for i := 0; ; i++ {
						if err := p.Publish(t.Context(), make([]byte, 64)); err != nil {
							if !errors.Is(err, net.ErrClosed) {
								t.Error(err)
							}
							return
						}
						if i == 1000 {
							begun <- struct{}{}
						}
					}
				}()
			}
			for range 3 {
				<-begun
			}
			bus.Close()
			wg.Wait()
		}
	})
}

// NextBatch returns what Next would, several messages at a time.
func TestNextBatch(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		sub := subscribe(t, subBus, "x", PublisherEvents())
		p := publisher(t, pubBus, "x")
		wait(t, ctx, p, 1)
		const n = 10_000
		packets := make(chan uint64, 1)
		go func() {
			var batch [][]byte
			for i := range n {
				pad := 1
				if i%1000 == 999 {
					pad = 4000
				}
				batch = append(batch, fmt.Appendf(nil, "%d %0*d", i, pad, 0))
				if len(batch) < 10 {
					continue
				}
				if _, err := p.PublishBatch(ctx, batch); err != nil {
					t.Error(err)
				}
				batch = batch[:0]
			}
			if err := p.Flush(ctx); err != nil {
				t.Error(err)
			}
			packets <- pubBus.Stats().Publications[0].PacketsSent
			pubBus.Close()
		}()
		var got, most int
		msgs := make([]Message, 10)
		for {
			k, err := sub.NextBatch(ctx, msgs)
			var e *PublisherEvent
			if errors.As(err, &e) {
				if e.Kind == events.PublisherEnded {
					break
				}
				continue
			}
			if err != nil || k < 1 || k > len(msgs) {
				t.Fatalf("PublishBatch: %d messages sent, error %v, want 1 to %d and none", k, err, len(msgs))
			}
			most = max(most, k)
			for _, m := range msgs[:k] {
				var i int
				if _, err := fmt.Sscanf(string(m.Data), "%d", &i); err != nil || i != got || m.Number != uint64(got) || m.Topic != "x" || m.Publisher() != pubBus.ID() {
					t.Fatalf("message %+v, want number %d", m, got)
				}
				got++
			}
		}
		// If sending is very cheap each message may have its own packet.
		if sent := <-packets; got != n || most < 2 && sent < n {
			t.Errorf("%d messages in %d packets, %d at most in one call", got, sent, most)
		}
		if _, err := sub.NextBatch(ctx, nil); err == nil {
			t.Error("NextBatch without room is no error")
		}
	})
}
