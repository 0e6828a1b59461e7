package pubsub

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// One subscriber does not read, of reading+1. With a quorum or a tag of the others, they receive everything, and
// Delivered says so; the stopped one gets an exact gap when it resumes. docs/protocol §8.1, §8.11.
func testOneStops(t *testing.T, url string, flow FlowControl, reading int) {
	ctx := testContext(t)
	pubBus := openBus(t, Config{FlowControl: flow, WindowBytes: 256 << 10}, url)
	pub := publisher(t, pubBus, "x")
	got := make([]atomic.Uint64, reading)
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
	wait(t, ctx, pub, reading+1)
	tags := 0
	for _, r := range pub.Receivers() {
		if r.Tag == "book" {
			tags++
		}
	}
	if tags != reading {
		t.Errorf("%d of %d subscribers carry the tag, want %d: %+v", tags, reading+1, reading, pub.Receivers())
	}
	const n = 5000
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
			time.Sleep(time.Millisecond) // the handler still runs
		}
	}
	go pubBus.Close()
	for next := uint64(0); next < n; {
		m, err := stopped.Next(ctx)
		var gap *GapError
		switch {
		case errors.As(err, &gap):
			if gap.First != next || gap.Count == 0 {
				t.Fatalf("gap %+v, want one that begins at %d", gap, next)
			}
			next += gap.Count
		case err != nil || m.Number != next || binary.LittleEndian.Uint64(m.Data) != next:
			t.Fatalf("message %d, error %v, want %d", m.Number, err, next)
		default:
			next++
		}
	}
}
