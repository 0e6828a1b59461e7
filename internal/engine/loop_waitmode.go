package engine

import (
	"context"
	"runtime"
)

// Wait says how the loop waits for packets, and readers for messages.
type Wait uint8

const (
	// WaitAdaptive parks, but looks for a while first when packets come so fast
	// that being woken for each train would cost the publisher more than looking
	// costs us.
	WaitAdaptive Wait = iota
	// WaitPark always gives the processor up.
	WaitPark
	// WaitSpin never does: a processor for the loop, and one for each reader.
	WaitSpin
)

// spin looks for something to deliver until ctx ends or the subscription does.
// It reports whether d holds it.
func (s *Subscription) spin(ctx context.Context, d *Delivery) bool {
	for i := 1; ; i++ {
		if s.poll(d) {
			return true
		}
		if i%64 == 0 {
			if liveContext(ctx) != nil {
				return false
			}
			select {
			case <-s.ended:
				return false
			default:
			}
		}
		runtime.Gosched()
	}
}
