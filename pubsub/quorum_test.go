package pubsub

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// One of four subscribers stops. With a quorum of three, or where the three carry the tag
// that the publisher looks for, they get everything, and the publisher knows that they
// have it; the fourth has an exact gap when it reads on.
// docs/protocol.md §8.1, §8.11.
func TestQuorum(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // it waits most of the time
	for _, flow := range []FlowControl{FlowQuorum(3), FlowTagged("book"), FlowQuorum(3).Tagged("book")} {
		t.Run(strings.NewReplacer(":", "", ",", "").Replace(string(flow)), func(t *testing.T) {
			eachFabric(t, func(t *testing.T, url string) { testOneOfFour(t, url, flow) })
		})
	}
}

func testOneOfFour(t *testing.T, url string, flow FlowControl) {
	ctx := testContext(t)
	pubBus := openBus(t, Config{FlowControl: flow, WindowBytes: 256 << 10}, url)
	pub := publisher(t, pubBus, "x")
	var got [3]atomic.Uint64
	for i := range got {
		_, err := openBus(t, Config{Tag: "book"}, url).Handle("x", func(m Message, err error) {
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
	tags := 0
	for _, r := range pub.Receivers() {
		if r.Tag == "book" {
			tags++
		}
	}
	if tags != 3 {
		t.Errorf("%d of 4 subscribers carry the tag, want 3: %+v", tags, pub.Receivers())
	}
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
}
