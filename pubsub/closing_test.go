package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Messages accepted by Publish during Close are delivered: none is accepted after the announced end.
func TestPublishDuringClose(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		for range 5 {
			pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
			sub := subscribe(t, subBus, "x", PublisherEvents())
			pub := publisher(t, pubBus, "x")
			wait(t, ctx, pub, 1)
			var taken atomic.Int64
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for pub.Publish(ctx, []byte("payload")) == nil {
						taken.Add(1)
					}
				})
			}
			got := int64(0)
			var closing sync.WaitGroup
			for {
				_, err := sub.Next(ctx)
				var e *PublisherEvent
				if errors.As(err, &e) {
					if e.Kind == events.PublisherEnded {
						break
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if got++; got == 1000 {
					closing.Go(func() {
						if err := pubBus.Close(); err != nil {
							t.Error(err)
						}
					})
				}
			}
			wg.Wait()
			closing.Wait()
			if got != taken.Load() {
				t.Fatalf("%d messages accepted, %d delivered, want equal numbers", taken.Load(), got)
			}
			subBus.Close()
		}
	})
}

// A subscriber that closes under load gets no gap.
func TestCloseOfSubscriberIsNoGap(t *testing.T) {
	testenv.Slow(t)
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus := openBus(t, Config{Linger: -1}, url)
		pub := publisher(t, pubBus, "x")
		stop, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		var joining sync.Mutex // without known subscribers a publisher may outrun one that joins
		wg.Go(func() {
			for err := error(nil); err == nil; {
				joining.Lock()
				err = pub.Publish(stop, make([]byte, 200))
				joining.Unlock()
			}
		})
		for range fewer(12) {
			subBus := openBus(t, Config{}, url)
			joining.Lock()
			for pub.Subscribers() > 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond) // the leave of the last subscriber is on its way
			}
			if err := pub.Flush(ctx); err != nil { // otherwise all would arrive in one burst
				t.Fatal(err)
			}
			sub := subscribe(t, subBus, "x")
			publish(t, ctx, pub, "welcome")
			wait(t, ctx, pub, 1)
			joining.Unlock()
			n := 0
			for _, err := range sub.Messages(ctx) {
				if err != nil {
					t.Errorf("after %d messages: %v\npublisher %+v, subscribers %+v\nsubscriber %+v",
						n, err, pubBus.Stats().Publications, pub.Receivers(), subBus.Stats().Groups)
				}
				if n++; n == 5000 {
					wg.Go(func() { subBus.Close() })
				}
			}
		}
		cancel()
		wg.Wait()
	})
}

// The end of the context ends a sequence while messages keep arriving.
func TestContextEndsBusySequence(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{Linger: -1}, url), openBus(t, Config{}, url)
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	stop, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for pub.Publish(stop, []byte("payload")) == nil {
		}
	})
	reading, end := context.WithCancel(ctx)
	defer end()
	n, after := 0, 0
	for range sub.Messages(reading) {
		if n++; n == 10000 {
			end()
		}
		if n > 10000 {
			after++
		}
	}
	if after > 64 {
		t.Errorf("%d messages were yielded after the context's end, want at most 64", after)
	}
	cancel()
	subBus.Close()
	wg.Wait()
}

// A publisher is killed and restarted while a reader is far behind: the reader gets all messages of both instances in
// order, and PublisherRestarted after those of the first.
func TestRestartWithBacklog(t *testing.T) {
	synctest.Test(t, testRestartWithBacklog) // in real time, on a busy host, the first would be found lost before the second starts
}

func testRestartWithBacklog(t *testing.T) {
	ctx := testContext(t)
	name := t.Name()
	subBus := openBus(t, Config{Wait: WaitPark}, "mem://"+name)
	sub := subscribe(t, subBus, "x", PublisherEvents())
	for round := range 2 {
		tr := memTransport(t, name)
		b, err := Config{Name: "feed", Logger: quiet, Wait: WaitPark}.OpenTransport(tr)
		if err != nil {
			t.Fatal(err)
		}
		pub := publisher(t, b, "x")
		wait(t, ctx, pub, 1)
		for i := range 200 {
			publish(t, ctx, pub, fmt.Sprint(round, " ", i))
		}
		if err := pub.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		tr.Close() // like a crash
		for err == nil {
			err = pub.Publish(ctx, nil)
		}
		time.Sleep(time.Millisecond) // the start of a process takes some time
	}
	next := make(map[events.ID]int) // by epoch
	var epochs []events.ID          // in the order they came up
	for gone := false; !gone || next[epochs[1]] < 200; {
		m, err := sub.Next(ctx)
		var e *PublisherEvent
		switch {
		case errors.As(err, &e) && e.Kind == events.PublisherUp:
			epochs = append(epochs, e.Epoch)
		case errors.As(err, &e) && e.Kind == events.PublisherRestarted:
			if gone = true; e.Epoch != epochs[0] || next[e.Epoch] != 200 {
				t.Fatalf("%v after %d messages of epoch %d", e, next[e.Epoch], e.Epoch)
			}
		case err != nil:
			if !errors.As(err, &e) || e.Kind != events.PublisherLost {
				t.Fatal(err)
			}
		default:
			i := next[m.Epoch()]
			if text := fmt.Sprint(slices.Index(epochs, m.Epoch()), " ", i); string(m.Data) != text {
				t.Fatalf("want %q, got %q", text, m.Data)
			}
			next[m.Epoch()]++
		}
	}
}

// Closing a subscription that blocks the publisher releases the publisher immediately.
func TestUnsubscribeReleasesPublisher(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{Linger: -1, Silence: time.Hour}, url), openBus(t, Config{}, url)
		sub := subscribe(t, subBus, "x")
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		sub.Close()
		for pub.Subscribers() != 0 {
			if ctx.Err() != nil {
				t.Fatal("the publisher still counts a subscriber that has unsubscribed")
			}
			time.Sleep(time.Millisecond)
		}
		for range 100000 { // with Silence of an hour the publisher would wait for that long
			publish(t, ctx, pub, "message of some length, so that windows would be full by now")
		}
	})
}

// A batch that fails half way has sent the messages before.
func TestBatchFailsHalfWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		url := memURL(t)
		pubBus := openBus(t, Config{FlushAfter: maxFlush, Wait: WaitPark}, url)
		subBus := openBus(t, Config{Wait: WaitPark}, url)
		sub := subscribe(t, subBus, "x")
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		time.Sleep(time.Second) // an idle bus sends a message immediately
		began := time.Now()
		n, err := pub.PublishBatch(ctx, [][]byte{[]byte("a"), make([]byte, 17<<20)})
		if n != 1 || !errors.Is(err, ErrMessageTooLarge) {
			t.Fatalf("PublishBatch: %d messages sent, error %v, want 1 and %v", n, err, ErrMessageTooLarge)
		}
		want(t, ctx, sub, "a")
		if took := time.Since(began); took >= maxFlush {
			t.Errorf("the message before it took %v of virtual time: it waited for others", took)
		}
	})
}

// Shutdown during a lingering Close observes its own context.
func TestShutdownDuringClose(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{Linger: time.Minute}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	subscribe(t, subBus, "x") // never read
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	for pub.TryPublish(make([]byte, 1000)) == nil {
	}
	closed := make(chan error, 1)
	go func() { closed <- pubBus.Close() }()
	for pub.TryPublish(nil) == nil || !errors.Is(pub.TryPublish(nil), net.ErrClosed) {
		time.Sleep(time.Millisecond) // until Close has begun
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := pubBus.Shutdown(short); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown with an ended context: %v, want %v", err, context.Canceled)
	}
	subBus.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// Shutdown and Close return in time although a handler does not return; the bus ends when it returns.
func TestShutdownWithStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		url := memURL(t)
		pubBus := openBus(t, Config{Wait: WaitPark}, url)
		pub := publisher(t, pubBus, "x")
		for _, end := range []struct {
			name string
			f    func(*Bus) error
			want error
		}{
			{"Shutdown", func(b *Bus) error {
				short, cancel := context.WithTimeout(ctx, 3*time.Second)
				defer cancel()
				return b.Shutdown(short)
			}, context.DeadlineExceeded},
			{"Close without linger", (*Bus).Close, engine.ErrStuck},
		} {
			bus := openBus(t, Config{Wait: WaitPark, Linger: -1}, url)
			direct, back := make(chan struct{}), make(chan struct{})
			sub, err := bus.Handle("x", func(Message, error) {
				close(direct)
				<-back
			})
			if err != nil {
				t.Fatal(err)
			}
			wait(t, ctx, pub, 1)
			publish(t, ctx, pub, "stay")
			<-direct
			began := time.Now()
			if err := end.f(bus); !errors.Is(err, end.want) {
				t.Errorf("%s with a stuck handler: %v, want %v", end.name, err, end.want)
			}
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("%s took %v, want at most 5 s", end.name, d)
			}
			close(back)
			if err := bus.Shutdown(ctx); err != nil {
				t.Errorf("the handler has returned: %v", err)
			}
			<-sub.Done()
			for pub.Subscribers() > 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
}

// Shutdown of a closed bus succeeds even with an ended context.
func TestShutdownOfClosedBus(t *testing.T) {
	bus := openBus(t, Config{}, memURL(t))
	if err := bus.Close(); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if err := bus.Shutdown(ended); err != nil {
			t.Fatal(err)
		}
	}
}

// A closing bus accepts no new subscriptions and publishers, not even of topics that it had.
func TestNothingNewWhileClosing(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	bus, other := openBus(t, Config{Linger: time.Minute}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	subscribe(t, other, "x") // never read
	subscribe(t, bus, "x")
	pub := publisher(t, bus, "x")
	wait(t, ctx, pub, 1)
	for pub.TryPublish(make([]byte, 1000)) == nil {
	}
	ended := make(chan error, 1)
	go func() { ended <- bus.Close() }()
	for !errors.Is(pub.TryPublish(nil), net.ErrClosed) {
		time.Sleep(time.Millisecond) // until Close has begun
	}
	try := func(when string) {
		t.Helper()
		_, err := bus.Subscribe("x")
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Subscribe on a bus that %s: %v, want %v", when, err, net.ErrClosed)
		}
		if _, err := bus.Handle("x", func(Message, error) {}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Handle on a bus that %s: %v, want %v", when, err, net.ErrClosed)
		}
		if _, err := bus.Publisher("x"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Publisher on a bus that %s: %v, want %v", when, err, net.ErrClosed)
		}
	}
	try("is closing")
	other.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	try("is closed")
}

func TestTryPublishOfALargeMessage(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		got := make(chan int, 16)
		if _, err := subBus.Handle("x", func(m Message, err error) { got <- len(m.Data) }); err != nil {
			t.Fatal(err)
		}
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		for _, n := range []int{10 << 10, 512 << 10, 4 << 20, 16 << 20} {
			if err := pub.Drain(ctx); err != nil {
				t.Fatal(err)
			}
			if err := pub.TryPublish(make([]byte, n)); err != nil {
				t.Errorf("TryPublish of %d bytes on an idle stream: %v", n, err)
				continue
			}
			if m := <-got; m != n {
				t.Errorf("%d bytes arrived, want %d", m, n)
			}
		}
	})
}
