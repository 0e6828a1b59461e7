package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// freeze simulates a stop of the loop for d: the clock advances, timers do not.
func (l *Loop) freeze(t *testing.T, d time.Duration) {
	t.Helper()
	if err := l.do(func() { l.clock.start = l.clock.start.Add(-d) }); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// A request waits requestGrace for a first subscriber, without the time in which the process is stopped.
func TestRequestAcrossAStop(t *testing.T) {
	for _, stop := range []time.Duration{0, 33 * time.Second} {
		t.Run(stop.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l := newLoop(t, Config{Wait: WaitPark})
				_, other := newLoop(t, Config{Wait: WaitPark})
				p, topic := publication(t, l, "x")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				result := make(chan error, 1)
				go func() {
					q, err := p.Request(ctx, topic, []byte("m"))
					if err == nil {
						q.Close()
					}
					result <- err
				}()
				time.Sleep(requestGrace / 2)
				synctest.Wait()
				if stop > 0 {
					l.freeze(t, stop)
				}
				time.Sleep(requestGrace)
				subscribeTo(t, other, TopicName{Name: "x", Group: 0}, policyAuto, nil)
				if err := <-result; errors.Is(err, ErrNoResponders) != (stop == 0) || stop > 0 && err != nil {
					t.Errorf("stopped for %v: Request returned %v, want %v only without a stop", stop, err, ErrNoResponders)
				}
			})
		})
	}
}
