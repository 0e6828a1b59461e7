package pubsub

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Messages that PublishBatch accepted before it failed are sent like those of Publish: within Config.FlushAfter, also
// on a busy bus.
func TestFailedBatchIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		url := memURL(t)
		pubBus, subBus := openBus(t, Config{Wait: WaitPark, Linger: -1}, url), openBus(t, Config{Wait: WaitPark}, url)
		sub := subscribe(t, subBus, "x")
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		for range 100 {
			publish(t, ctx, pub, "busy")
		}
		n, err := pub.PublishBatch(ctx, [][]byte{[]byte("a"), []byte("b"), make([]byte, 16<<20+1), []byte("c")})
		if n != 2 || !errors.Is(err, ErrMessageTooLarge) {
			t.Fatalf("PublishBatch: %d messages sent, error %v, want 2 and %v", n, err, ErrMessageTooLarge)
		}
		began := time.Now()
		for range 102 {
			if _, err := sub.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		// If the loop finds the publication locked it tries again a millisecond later.
		if d := time.Since(began); d > 2*time.Millisecond {
			t.Errorf("the last message arrived after %v, want at most 2 ms", d)
		}
	})
}

// An unread subscription holds up another one of its bus until it removes the topic, and no longer.
func TestRemoveReleasesOtherSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		url := memURL(t)
		pubBus, subBus := openBus(t, Config{Wait: WaitPark, Linger: -1}, url), openBus(t, Config{Wait: WaitPark, ReceiveWindowBytes: 64 << 10}, url)
		idle, sub := subscribe(t, subBus, "x"), subscribe(t, subBus, "x")
		pub := publisher(t, pubBus, "x")
		wait(t, t.Context(), pub, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for pub.Publish(ctx, make([]byte, 200)) == nil {
				time.Sleep(time.Microsecond)
			}
		}()
		var last atomic.Int64
		began := time.Now()
		go func() {
			for range sub.Messages(ctx) {
				last.Store(int64(time.Since(began)))
			}
		}()
		time.Sleep(1234567 * time.Microsecond) // not a multiple of any interval
		if _, err := idle.Next(ctx); err != nil {
			t.Fatal(err)
		}
		held := time.Since(began)
		if time.Duration(last.Load()) > held/2 {
			t.Fatalf("a message arrived after %v: nothing is blocked", time.Duration(last.Load()))
		}
		if err := idle.Remove("x"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		go idle.Next(ctx) // it releases the message that it has read
		time.Sleep(10 * time.Microsecond)
		if time.Duration(last.Load()) < held {
			t.Error("no message arrived although no subscription holds the stream up")
		}
		cancel()
		synctest.Wait()
	})
}

// A searching subscriber reports a mismatched publisher even if that ends within milliseconds: a publisher sends a
// hello before it ends. docs/protocol §14.2.
func TestQuickPublisherIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		url := memURL(t)
		reported := newMismatches()
		subBus, pubBus := openBus(t, reported.config(), url+"?groups=16"), openBus(t, Config{Wait: WaitPark}, url+"?groups=64")
		topic := farTopic(subBus, pubBus)
		subscribe(t, subBus, topic)
		time.Sleep(1500 * time.Millisecond) // it searches for publishers
		publish(t, t.Context(), publisher(t, pubBus, topic), "x")
		if err := pubBus.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := reported.count(); n != 1 {
			t.Errorf("%d mismatches reported, want 1", n)
		}
	})
}

// PublishBatch returns the number of accepted messages if its context ends while it waits for room, and all of these
// arrive. Another publisher of the bus sends meanwhile.
func TestBatchEndsWhileItWaits(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{WindowBytes: 64 << 10}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	sub := subscribe(t, subBus, "x")
	pub, other := publisher(t, pubBus, "x"), publisher(t, pubBus, "other")
	wait(t, ctx, pub, 1)
	var stop atomic.Bool
	done, got := make(chan struct{}), make(chan uint64, 1)
	go func() {
		defer close(done)
		for !stop.Load() {
			if err := other.Publish(ctx, make([]byte, 50)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	go func() {
		n := uint64(0)
		for {
			m, err := sub.Next(ctx)
			if err != nil || m.Number != n {
				t.Errorf("message %d, want %d: %v", m.Number, n, err)
				got <- n
				return
			}
			if n++; len(m.Data) == 1 {
				got <- n
				return
			}
		}
	}()
	batch := make([][]byte, 2000)
	for i := range batch {
		batch[i] = make([]byte, 500)
	}
	want, failed := uint64(0), 0
	for i := range fewer(600) {
		ended, cancel := context.WithTimeout(ctx, time.Duration(i%15)*100*time.Microsecond)
		n, err := pub.PublishBatch(ended, batch)
		cancel()
		if want += uint64(n); err != nil {
			failed++
		} else if n != len(batch) {
			t.Errorf("%d messages sent without an error, want %d", n, len(batch))
		}
	}
	publish(t, ctx, pub, "!")
	if n := <-got; n != want+1 || failed == 0 {
		t.Errorf("%d messages arrived, %d batches were cut short, want %d and at least one", n, failed, want+1)
	}
	stop.Store(true)
	<-done
}
