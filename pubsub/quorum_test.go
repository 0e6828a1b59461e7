package pubsub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// One of four subscribers stops. With a quorum of three the others get everything, and
// the publisher knows that they have it; the fourth has an exact gap when it reads on.
// docs/protocol.md §8.1.
func TestQuorum(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus := openBus(t, Config{FlowControl: FlowQuorum(3), WindowBytes: 256 << 10}, url)
		pub := publisher(t, pubBus, "x")
		var got [3]atomic.Uint64
		for i := range got {
			_, err := openBus(t, Config{}, url).Handle("x", func(m Message, err error) {
				if err != nil || m.Number != got[i].Load() {
					t.Errorf("subscriber %d: message %d, %v, want %d", i, m.Number, err, got[i].Load())
				}
				got[i].Store(m.Number + 1)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		stopped := subscribe(t, openBus(t, Config{ReceiveWindowBytes: 128 << 10}, url), "x")
		wait(t, ctx, pub, 4)
		const n = 20_000
		msg := make([]byte, 100)
		for i := range n {
			binary.LittleEndian.PutUint64(msg, uint64(i))
			if err := pub.Publish(ctx, msg); err != nil {
				t.Fatal(err)
			}
		}
		if err := pub.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		if d := pub.Delivered(); d != n {
			t.Errorf("%d delivered after Drain, want %d", d, n)
		}
		for i := range got {
			for got[i].Load() < n && ctx.Err() == nil {
				time.Sleep(time.Millisecond) // it came, and is being handled
			}
		}
		go pubBus.Close()
		for next := uint64(0); next < n; {
			m, err := stopped.Next(ctx)
			var gap *GapError
			switch {
			case errors.As(err, &gap):
				if gap.First != next || gap.Count == 0 {
					t.Fatalf("at %d: gap %+v", next, gap)
				}
				next += gap.Count
			case err != nil || m.Number != next || binary.LittleEndian.Uint64(m.Data) != next:
				t.Fatalf("at %d: message %d, %v", next, m.Number, err)
			default:
				next++
			}
		}
	})
}

// A subscription that is never read stays behind, though it holds nobody up while the
// window has room: it is told of by name, and not waited for.
// docs/protocol.md §8.9.
func TestSlowSubscriberEvent(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	slow := make(chan Event, 10)
	pubBus := openBus(t, Config{SlowBehind: 20, SlowFor: 10 * time.Millisecond, OnEvent: func(e Event) {
		if e.Kind == SlowSubscriber {
			slow <- e
		}
	}}, url)
	sub := subscribe(t, openBus(t, Config{Name: "sluggish"}, url), "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	for i := range 100 {
		publish(t, ctx, pub, fmt.Sprint(i))
		if err := pub.Flush(ctx); err != nil { // a packet each
			t.Fatal(err)
		}
	}
	select {
	case e := <-slow:
		if e.Name != "sluggish" || e.Behind <= 20 || e.For < 10*time.Millisecond {
			t.Errorf("told %+v", e)
		}
	case <-ctx.Done():
		t.Fatal("nobody was told")
	}
	if r := pub.Receivers(); len(r) != 1 || !r[0].LetGo {
		t.Errorf("receivers %+v", r)
	}
	for i := range 100 { // all of it is in the window
		want(t, ctx, sub, fmt.Sprint(i))
	}
	for pub.Receivers()[0].LetGo {
		if err := ctx.Err(); err != nil {
			t.Fatal("it caught up, and is not waited for")
		}
		time.Sleep(time.Millisecond)
	}
}
