package pubsub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// An unread subscription blocks the publisher, and loses nothing.
func TestBackPressure(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus := openBus(t, Config{}, url)
		subBus := openBus(t, Config{ReceiveWindowBytes: 256 << 10}, url)
		sub := subscribe(t, subBus, "x", SlowConsumer(SlowBlock))
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		msg := make([]byte, 500)
		n := 0
		var err error
		for ; err == nil; n++ {
			if n > 1e6 {
				t.Fatal("a million messages into a window of 256 KiB")
			}
			binary.LittleEndian.PutUint64(msg, uint64(n))
			err = pub.TryPublish(msg)
		}
		n--
		var bp interface{ Error() string }
		if !errors.Is(err, events.ErrBackPressure) || !errors.As(err, &bp) {
			t.Fatalf("TryPublish: %v, want ErrBackPressure", err)
		}
		if n < 32 { // in process a packet takes 8 KiB of the window, even if it has one message
			t.Errorf("only %d messages were accepted before back pressure", n)
		}
		// Publish waits until its context ends.
		short, cancel := context.WithCancelCause(ctx)
		cause := errors.New("enough")
		go cancel(cause)
		if err := pub.Publish(short, msg); err != nil && !errors.Is(err, cause) {
			t.Errorf("Publish with a cancelled context: %v, want %v", err, cause)
		} else if err == nil {
			n++
			binary.LittleEndian.PutUint64(msg, uint64(n))
		}
		for i := range n {
			m, err := sub.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if m.Number != uint64(i) {
				t.Fatalf("message %d has number %d, want equal ones", i, m.Number)
			}
		}
		if err := pub.Publish(ctx, []byte("after")); err != nil {
			t.Fatalf("after the subscription was read: %v", err)
		}
		want(t, ctx, sub, "after")
	})
}

// The rate limit holds: the test only checks that sending is not faster.
func TestRateLimit(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus := openBus(t, Config{Rate: 1 << 20}, url)
	subBus := openBus(t, Config{}, url)
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	const n = 400
	begin := time.Now()
	for i := range n {
		publish(t, ctx, pub, fmt.Sprintf("%01000d", i))
	}
	if err := pub.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	elapsed := time.Since(begin)
	sent := pubBus.Stats().Publications[0].BytesSent
	// All but the burst was sent at the limit: faster is an error, slower depends on the machine.
	if least := time.Duration(float64(sent-3*64<<10) / (1 << 20) * float64(time.Second)); elapsed < least {
		t.Errorf("%d bytes took %v at 1 MiB/s, want %v at least", sent, elapsed, least)
	}
	for i := range n {
		want(t, ctx, sub, fmt.Sprintf("%01000d", i))
	}
}
