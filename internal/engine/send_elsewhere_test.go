package engine

import (
	"testing"
	"time"
)

// Who publishes by several buses in turn, in a tight loop, is busy at each of them: its messages wait for each other. Where
// it makes a pause they leave at once, before each message and before a row of one for each.
func TestBatchersOfOneGoroutine(t *testing.T) {
	for _, cost := range []time.Duration{time.Microsecond, 7 * time.Microsecond} {
		for _, loops := range []int{1, 2, 4, 16} {
			for _, groups := range []int{1, 4} {
				var all []*virtual
				for range loops {
					all = append(all, newVirtual(groups, cost))
				}
				now := all[0].now
				// publish has n messages, each some time behind the one before, and the first of each row so much later.
				publish := func(n int, apart, pause time.Duration) (single int) {
					for i := range n {
						v := all[i%loops]
						if now = now.Add(apart); i%loops == 0 {
							now = now.Add(pause)
						}
						v.now, v.singly = now, 0
						v.publish(now)
						now = v.now
						single += v.singly
					}
					return single
				}
				const tight = 30 * time.Nanosecond
				publish(1000, time.Millisecond, 0)
				publish(20_000, tight, 0)
				if n := publish(20_000, tight, 0); n > 200 {
					t.Errorf("%v, %d loops of %d groups: %d of 20000 messages left by themselves in a tight loop", cost, loops, groups, n)
				}
				for _, pause := range []time.Duration{100 * time.Microsecond, time.Millisecond, 100 * time.Millisecond} {
					pause *= time.Duration(loops) // more than the sends of a row take
					publish(100*loops, 200*time.Nanosecond, pause)
					if n := publish(1000*loops, 200*time.Nanosecond, pause); n < 990*loops {
						t.Errorf("%v, %d loops of %d groups: %d of %d messages left at once in rows behind pauses of %v", cost, loops, groups, n, 1000*loops, pause)
					}
				}
			}
		}
	}
}

func TestElsewhere(t *testing.T) {
	const near = time.Microsecond
	now := aMinute
	here, there := elsewhere{}, elsewhere{zero: -time.Second} // as of a bus that was opened a second earlier
	pause := func(want time.Duration) {
		t.Helper()
		if d := here.pause(now, time.Hour, near); d != want {
			t.Errorf("paused for %v, want %v", d, want)
		}
	}
	others := func(d time.Duration) {
		now = now.Add(d)
		there.pause(now.Add(time.Second), time.Hour, near)
		now = now.Add(time.Millisecond)
		there.took(now.Add(time.Second))
	}
	pause(time.Hour) // it was not here before
	others(near)
	others(near / 2)
	pause(0)
	others(near + 5)
	others(near + 7)
	now = now.Add(near)
	pause(2*near + 12)
	now = now.Add(near + 3)
	here.took(now)
	pause(0) // sends are none
	if d := here.pause(now.Add(near+9), 4, near); d != 4 {
		t.Errorf("paused for %v, want no more than since something was done here", d)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		here.pause(now, 0, near)
	}()
	<-done
	pause(time.Hour) // another one was here
}
