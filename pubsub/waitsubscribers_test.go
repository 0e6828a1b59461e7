package pubsub

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// WaitSubscribers on a new group returns within a round trip, whether the subscription, the publisher or the wait
// comes first: at most the interval of heartbeats in protocol time (docs/protocol §5.7). mem takes no time at all.
func TestWaitSubscribersIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		url := memURL(t) + "?groups=256"
		pubBus, subBus := openBus(t, Config{Wait: WaitPark, Linger: -1}, url), openBus(t, Config{Wait: WaitPark}, url)
		next := 0
		topic := func() string { // of an unused group
			for used := make(map[int]bool); ; next++ {
				for i := range next {
					used[pubBus.Group(fmt.Sprint("t", i))] = true
				}
				if name := fmt.Sprint("t", next); !used[pubBus.Group(name)] {
					next++
					return name
				}
			}
		}
		for range 10 {
			for name, f := range map[string]func() (took, most time.Duration){
				"the subscription comes first": func() (time.Duration, time.Duration) {
					x := topic()
					subscribe(t, subBus, x)
					time.Sleep(250 * time.Millisecond)
					began := time.Now()
					wait(t, ctx, publisher(t, pubBus, x), 1)
					return time.Since(began), 2 * time.Millisecond
				},
				"the publisher comes first": func() (time.Duration, time.Duration) {
					x := topic()
					p := publisher(t, pubBus, x)
					time.Sleep(250 * time.Millisecond)
					subscribe(t, subBus, x)
					began := time.Now()
					wait(t, ctx, p, 1)
					return time.Since(began), 2 * time.Millisecond
				},
				"the wait comes first": func() (time.Duration, time.Duration) {
					x := topic()
					p := publisher(t, pubBus, x)
					const waited = 240 * time.Millisecond
					time.AfterFunc(waited, func() { subscribe(t, subBus, x) })
					began := time.Now()
					wait(t, ctx, p, 1)
					return time.Since(began) - waited, waited/16 + 2*time.Millisecond
				},
			} {
				if took, most := f(); took > most {
					t.Errorf("%s: waited %v for a present subscriber, want at most %v", name, took, most)
				}
			}
		}
	})
}
