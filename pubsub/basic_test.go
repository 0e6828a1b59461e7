package pubsub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
)

// docs/protocol §10.4.
func TestPublishSubscribe(t *testing.T) { eachFabric(t, testPublishSubscribe) }

func testPublishSubscribe(t *testing.T, url string) {
	ctx := testContext(t)
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
	sub := subscribe(t, subBus, "a.b")
	pub := publisher(t, pubBus, "a.b")
	wait(t, ctx, pub, 1)
	const n = 10000
	go func() {
		for i := range n {
			if err := pub.Publish(ctx, fmt.Appendf(nil, "message %d", i)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range n {
		m, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("message %d", i); string(m.Data) != want || m.Number != uint64(i) || m.Topic != "a.b" {
			t.Fatalf("got %s number %d on %s, want %s", m.Data, m.Number, m.Topic, want)
		}
	}
	if err := pubBus.Close(); err != nil {
		t.Errorf("closing the publisher: %v", err)
	}
}

// Messages of many sizes arrive despite loss, duplication and reordering.
func TestLossyManySizes(t *testing.T) {
	t.Parallel() // the test mostly waits
	for _, loss := range []string{"loss=0.1,dup=0.02,reorder=0.05", "loss=0.01", "loss=0.3,burst=4"}[:fewer(3)] {
		eachFabric(t, func(t *testing.T, url string) {
			t.Logf("faults %s", loss)
			ctx := testContext(t)
			pubBus := openBus(t, Config{Faults: loss + ",seed=1"}, url)
			var wg sync.WaitGroup
			n := fewer(3000)
			for k := range 3 {
				subBus := openBus(t, Config{Faults: loss + fmt.Sprintf(",seed=%d", 10+k)}, url)
				check := sizeChecker(t, n)
				if k == 0 {
					done := make(chan struct{})
					if _, err := subBus.Handle("x", func(m Message, err error) {
						if check(m, err) {
							close(done)
						}
					}); err != nil {
						t.Fatal(err)
					}
					wg.Go(func() {
						select {
						case <-done:
						case <-ctx.Done():
							t.Error("handler: timeout")
						}
					})
					continue
				}
				sub := subscribe(t, subBus, "x")
				wg.Go(func() {
					for m, err := range sub.Messages(ctx) {
						if check(m, err) {
							return
						}
					}
					t.Error("subscription ended early")
				})
			}
			pub := publisher(t, pubBus, "x")
			wait(t, ctx, pub, 3)
			for i := range n {
				if err := pub.Publish(ctx, sized(i)); err != nil {
					t.Fatal(err)
				}
			}
			wg.Wait()
			if t.Failed() {
				t.Logf("publisher's statistics %+v", pubBus.Stats().Publications)
			}
		})
	}
}

// sized returns message i of a mix of sizes: most are small, some have several packets.
func sized(i int) []byte {
	size := 8 + (i*37)%300
	if i%50 == 7 {
		size = 8 + (i*997)%20000
	}
	b := make([]byte, size)
	binary.LittleEndian.PutUint64(b, uint64(i))
	for j := 8; j < size; j++ {
		b[j] = byte(i + j)
	}
	return b
}

// sizeChecker returns a function that checks the sized messages in order and returns true at the last.
func sizeChecker(t *testing.T, n int) func(Message, error) bool {
	next := 0
	return func(m Message, err error) bool {
		if err != nil {
			t.Errorf("message %d: %v", next, err)
			return true
		}
		want := sized(next)
		if string(m.Data) != string(want) {
			t.Errorf("message %d: got %d bytes, number %d; want %d bytes", next, len(m.Data), m.Number, len(want))
			return true
		}
		next++
		return next == n
	}
}

func TestCloseWakesReaders(t *testing.T) {
	url := "mem://" + t.Name()
	b := openBus(t, Config{}, url)
	sub := subscribe(t, b, "x")
	errs := make(chan error)
	go func() {
		_, err := sub.Next(context.Background())
		errs <- err
	}()
	b.Close()
	if err := <-errs; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Next after Close: error %v, want %v", err, net.ErrClosed)
	}
	if _, err := b.Publisher("x"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Publisher after Close: error %v, want %v", err, net.ErrClosed)
	}
	if _, err := b.Subscribe("x"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Subscribe after Close: error %v, want %v", err, net.ErrClosed)
	}
}
