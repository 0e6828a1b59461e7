package pubsub

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What PublishBatch has taken before it fails leaves as what Publish takes: within
// Config.FlushAfter, also where the bus is busy.
func TestFailedBatchLeaves(t *testing.T) {
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
			t.Fatalf("%d, %v", n, err)
		}
		began := time.Now()
		for range 102 {
			if _, err := sub.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		// A loop that finds the publication locked looks again a millisecond later.
		if d := time.Since(began); d > 2*time.Millisecond {
			t.Errorf("the last message came after %v", d)
		}
	})
}

// A subscription that does not read holds its neighbour up until it gives the topic up, and
// no longer.
func TestRemovedTopicFreesNeighbours(t *testing.T) {
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
		time.Sleep(1234567 * time.Microsecond) // no multiple of anything
		if _, err := idle.Next(ctx); err != nil {
			t.Fatal(err)
		}
		held := time.Since(began)
		if time.Duration(last.Load()) > held/2 {
			t.Fatalf("a message came after %v: nothing is held up", time.Duration(last.Load()))
		}
		if err := idle.Remove("x"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		go idle.Next(ctx) // it has done with the message that it has
		time.Sleep(10 * time.Microsecond)
		if time.Duration(last.Load()) < held {
			t.Error("nothing came although nobody holds the stream up")
		}
		cancel()
		synctest.Wait()
	})
}

// A publisher that ends within milliseconds is told of where it cannot be heard, by a
// subscriber that is looking for publishers: it says hello before it goes.
// docs/protocol §14.2.
func TestQuickPublisherIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		url := memURL(t)
		told := newMismatches()
		subBus, pubBus := openBus(t, told.config(), url+"?groups=16"), openBus(t, Config{Wait: WaitPark}, url+"?groups=64")
		topic := farTopic(subBus, pubBus)
		subscribe(t, subBus, topic)
		time.Sleep(1500 * time.Millisecond) // it looks for publishers
		publish(t, t.Context(), publisher(t, pubBus, topic), "x")
		if err := pubBus.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := told.count(); n != 1 {
			t.Errorf("told of %d", n)
		}
	})
}

// A batch whose context ends while it waits for room says how many messages it took, and all of them come.
// Another publisher of the bus sends meanwhile.
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
			t.Errorf("%d of %d without an error", n, len(batch))
		}
	}
	publish(t, ctx, pub, "!")
	if n := <-got; n != want+1 || failed == 0 {
		t.Errorf("%d came of %d, %d batches were cut short", n, want+1, failed)
	}
	stop.Store(true)
	<-done
}
