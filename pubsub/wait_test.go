package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
)

// Each Wait mode delivers, and wakes up for a message after a pause, for an ended context and for Close.
func TestWait(t *testing.T) {
	for _, w := range []Wait{WaitAdaptive, WaitPark, WaitSpin} {
		t.Run(string(w), func(t *testing.T) {
			eachFabric(t, func(t *testing.T, url string) {
				ctx := testContext(t)
				pubBus, subBus := openBus(t, Config{Wait: WaitPark}, url), openBus(t, Config{Wait: w}, url)
				sub := subscribe(t, subBus, "x")
				p := publisher(t, pubBus, "x")
				wait(t, ctx, p, 1)
				for round := range 3 {
					burst := fewer(20_000) // a flood, then nothing
					done := make(chan error, 1)
					go func() {
						for i := range burst {
							if err := p.Publish(ctx, fmt.Append(nil, round, i)); err != nil {
								done <- err
								return
							}
						}
						done <- p.Drain(ctx)
					}()
					for i := range burst {
						want(t, ctx, sub, fmt.Sprint(round, i))
					}
					if err := <-done; err != nil {
						t.Fatal(err)
					}
				}
				stop := errors.New("stop")
				ended, cancel := context.WithCancelCause(ctx)
				result := make(chan error, 1)
				go func() {
					_, err := sub.Next(ended)
					result <- err
				}()
				cancel(stop)
				if err := <-result; !errors.Is(err, stop) {
					t.Errorf("Next with an ended context: error %v, want %v", err, stop)
				}
				go func() {
					_, err := sub.Next(ctx)
					result <- err
				}()
				subBus.Close()
				if err := <-result; !errors.Is(err, net.ErrClosed) {
					t.Errorf("Next on a closed bus: error %v, want %v", err, net.ErrClosed)
				}
			})
		})
	}
}
