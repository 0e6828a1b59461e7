package pubsub

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// A responder closes its bus or its subscription immediately after Respond: Close waits, and the reply arrives, also
// a long one that the requester fetches in parts, and with losses.
func TestResponderCloses(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	eachFabric(t, func(t *testing.T, url string) {
		for _, c := range []struct {
			name         string
			size         int
			subscription bool
			faults       string
		}{
			{"short, the bus", 100, false, ""},
			{"short, the subscription", 100, true, ""},
			{"long, the bus", 1 << 20, false, ""},
			{"long, the subscription", 300_000, true, ""},
			{"with loss", 1000, false, "loss=0.2,seed=3"},
		} {
			ctx := testContext(t)
			requester, responder := openBus(t, Config{Faults: c.faults}, url), openBus(t, Config{}, url)
			s := subscribe(t, responder, "rpc")
			wait(t, ctx, publisher(t, requester, "rpc"), 1)
			reply := bytes.Repeat([]byte{'r'}, c.size)
			closed := make(chan error, 1)
			go func() {
				m, err := s.Next(ctx)
				if err == nil {
					err = m.Respond(reply)
				}
				if err != nil {
					t.Error(err)
				}
				if c.subscription {
					closed <- s.Close()
				} else {
					closed <- responder.Close()
				}
			}()
			begin := time.Now()
			r, err := requester.Request(ctx, "rpc", []byte("x"))
			if err != nil || !bytes.Equal(r.Data, reply) {
				t.Errorf("%s: reply of %d bytes, error %v after %v, want %d bytes", c.name, len(r.Data), err, time.Since(begin), c.size)
			}
			if err := <-closed; err != nil {
				t.Errorf("%s: closing: %v", c.name, err)
			}
			responder.Close()
			requester.Close()
		}
	})
}

// A responder that is closed while requests arrive accepts no more of them, and open requests do not delay Close.
func TestResponderClosesUnderLoad(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		requester, stays := openBus(t, Config{}, url), openBus(t, Config{}, url)
		goes := openBus(t, Config{Linger: time.Hour}, url)
		var asked sync.WaitGroup
		asked.Add(1000)
		var left atomic.Int32
		left.Store(1000)
		for _, b := range []*Bus{stays, goes} {
			if _, err := b.Handle("rpc", func(m Message, err error) {
				if err == nil {
					err = m.Respond(m.Data)
				}
				if err != nil && b == goes {
					t.Error(err)
				}
				if b == goes && left.Add(-1) >= 0 {
					asked.Done()
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		wait(t, ctx, publisher(t, requester, "rpc"), 2)
		asking, stop := context.WithCancel(ctx)
		var requests sync.WaitGroup
		for range 4 {
			requests.Go(func() {
				for asking.Err() == nil {
					if _, err := requester.Request(ctx, "rpc", []byte("x")); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		asked.Wait()
		if err := goes.Shutdown(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("Shutdown: error %v, context %v, want neither", err, ctx.Err())
		}
		stop()
		requests.Wait()
	})
}
