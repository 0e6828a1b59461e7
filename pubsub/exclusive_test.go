package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

func exclusive(t testing.TB, b *Bus, topic string) *ExclusivePublisher {
	t.Helper()
	p, err := b.ExclusivePublisher(topic)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Exclusive publishers beside each other and beside a shared one, on one topic
// and group: each publisher's messages come in its order, whole and once, small
// ones and ones of many packets.
func TestExclusivePublishersInOrder(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		sub := subscribe(t, subBus, "x")
		const writers = 6
		each := fewer(3000)
		batches := [writers]int{1, 1, 1, 7, 50, 50} // messages a call
		publishers := []interface {
			Publish(context.Context, []byte) error
			PublishBatch(context.Context, [][]byte) (int, error)
		}{publisher(t, pubBus, "x")}
		for range writers - 2 {
			publishers = append(publishers, exclusive(t, pubBus, "x"))
		}
		publishers = append(publishers, publisher(t, pubBus, "x"))
		wait(t, ctx, publishers[0].(*Publisher), 1)
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
				t.Fatalf("message %d: %.20q, publisher's next is %d (%v)", m.Number, m.Data, next[w], err)
			}
			next[w]++
		}
		wg.Wait()
	})
}

// What an exclusive publisher leaves in an open packet goes by itself: when it
// pauses, when another one flushes, and when the bus is closed.
func TestExclusivePublisherPauses(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		sub := subscribe(t, subBus, "x")
		a, b := exclusive(t, pubBus, "x"), publisher(t, pubBus, "x")
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
			case 0: // nobody does anything
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
			t.Errorf("publishing on a closed bus: %v", err)
		}
	})
}

// A bus that is closed while exclusive publishers are at work: they learn of it,
// and nobody writes into memory that is gone.
func TestCloseUnderExclusivePublishers(t *testing.T) {
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
				p := exclusive(t, bus, "x")
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

// Closed exclusive publishers give their packet memory to the next ones.
func TestExclusivePublisherClose(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
	sub := subscribe(t, subBus, "x")
	wait(t, ctx, publisher(t, pubBus, "x"), 1)
	for i := range 200 { // of 128 KiB each
		p := exclusive(t, pubBus, "x")
		if err := p.Publish(ctx, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(ctx); err != nil {
			t.Fatal(err)
		}
		want(t, ctx, sub, fmt.Sprint(i))
		if err := p.Publish(ctx, nil); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("publishing on a closed publisher: %v", err)
		}
		if err := p.Close(ctx); err != nil {
			t.Fatalf("closing twice: %v", err)
		}
		for what, err := range map[string]error{"publish": p.Publish(ctx, nil), "flush": p.Flush(ctx), "drain": p.Drain(ctx)} {
			if !errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "bus is closed") {
				t.Errorf("%s on a closed publisher of an open bus: %v", what, err)
			}
		}
	}
	if n := pubBus.Stats().Publications[0].MemoryBytes; n > 16<<20 {
		t.Errorf("%d bytes of packet memory after 200 publishers, one at a time", n)
	}
}

// TryPublish and contexts work as with a shared publisher.
func TestExclusivePublisherBackPressure(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{WindowBytes: 64 << 10}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	sub := subscribe(t, subBus, "x")
	p := exclusive(t, pubBus, "x")
	wait(t, ctx, p, 1)
	taken := 0
	for ; ; taken++ {
		err := p.TryPublish(fmt.Append(nil, taken))
		if errors.Is(err, ErrBackPressure) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("stop")
	short, cancel := context.WithCancelCause(ctx)
	cancel(stop)
	if err := p.Publish(short, nil); !errors.Is(err, stop) {
		t.Errorf("publishing with an ended context: %v", err)
	}
	for i := range taken {
		want(t, ctx, sub, fmt.Sprint(i))
	}
	if err := p.Publish(ctx, []byte("on")); err != nil {
		t.Fatal(err)
	}
	want(t, ctx, sub, "on")
}

// NextBatch gives what Next would, several at a time.
func TestNextBatch(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		sub := subscribe(t, subBus, "x", PublisherEvents())
		p := exclusive(t, pubBus, "x")
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
				t.Fatalf("%d messages, %v", k, err)
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
		// Where sending costs next to nothing each message may have a packet of its own.
		if sent := <-packets; got != n || most < 2 && sent < n {
			t.Errorf("%d messages in %d packets, %d at most in one call", got, sent, most)
		}
		if _, err := sub.NextBatch(ctx, nil); err == nil {
			t.Error("NextBatch without room is no error")
		}
	})
}
