package driver

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// Who publishes by several loops or buses in turn, in a tight loop, is busy at each of them: its messages wait for each other. Where
// it makes a pause they leave at once, and so do those of another goroutine, which the sends of the first are nothing to.
func TestBatchersOfOneGoroutine(t *testing.T) {
	const cost = 7 * time.Microsecond
	for _, loops := range []int{1, 2, 4, 16} {
		var all []*virtual
		for range loops {
			all = append(all, newVirtual(4, cost))
		}
		now, single := all[0].now, 0
		publish := func(n int, apart time.Duration) {
			single = 0
			for i := range n {
				v := all[i%loops]
				now = now.Add(apart)
				v.now, v.singly = now, 0
				v.publish(now)
				now = v.now
				single += v.singly
			}
		}
		publish(1000, time.Millisecond)
		publish(20_000, 30*time.Nanosecond)
		if publish(20_000, 30*time.Nanosecond); single > 100 {
			t.Errorf("%d loops: %d of 20000 messages left by themselves in a tight loop", loops, single)
		}
		publish(1000, time.Millisecond)
		if publish(1000, time.Millisecond); single < 990 {
			t.Errorf("%d loops: %d of 1000 messages left at once behind a pause", loops, single)
		}
	}
}

func TestElsewhere(t *testing.T) {
	now := aMinute
	early, late := elsewhere{0}, elsewhere{time.Second} // as of a bus that was opened a second later
	if early.took(now); late.last(now) != now.Add(-time.Second) || early.last(now) != now {
		t.Errorf("sent at %v, is known as %v and %v", now, early.last(now), late.last(now))
	}
	if at := early.last(now - 1); at != 0 {
		t.Errorf("a send that ends later than now is known as %v", at)
	}
	seen := make(chan reliable.Instant)
	go func() { seen <- early.last(now) }()
	if at := <-seen; at == now { // else one that had its place before
		t.Error("what one goroutine has sent is another's")
	}
}
