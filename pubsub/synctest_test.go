package pubsub

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A single message is sent immediately in each synctest bubble, whatever earlier bubbles published: their goroutines'
// memory is reused.
func TestSingleMessageInEachBubble(t *testing.T) {
	for i := range 40 {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			pub, sub := openBus(t, Config{}, "mem://bubble"), openBus(t, Config{}, "mem://bubble")
			var got atomic.Int64
			if _, err := sub.Handle("x", func(Message, error) { got.Add(1) }); err != nil {
				t.Fatal(err)
			}
			p := publisher(t, pub, "x")
			time.Sleep(2 * time.Second)
			publish(t, ctx, p, "message")
			if synctest.Wait(); got.Load() != 1 {
				t.Errorf("bubble %d: %d messages have arrived, want 1", i, got.Load())
			}
		})
	}
}
