package driver

import (
	"context"
	"runtime"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
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

// arrivals smooths how fast packets come.
type arrivals struct {
	at    reliable.Instant // the last ones
	gap   time.Duration    // from packet to packet
	apart time.Duration    // from batch to batch
}

func (a *arrivals) arrived(now reliable.Instant, packets int) {
	apart := min(now.Sub(a.at), time.Millisecond)
	a.gap += (apart/time.Duration(packets) - a.gap) / 8
	a.apart += (apart - a.apart) / 8
	a.at = now
}

const (
	// fastGap is how close packets come for WaitAdaptive to look again rather
	// than to park: a flood of full trains, not a stream of single packets.
	fastGap = 2 * time.Microsecond
	// lookFor is how long it looks at least: about what being woken costs both
	// sides. Where trains come further apart it looks for as long as two of them
	// take, but not longer than mostLooking: the publisher, who pays for waking us,
	// holds everybody up.
	lookFor     = 30 * time.Microsecond
	mostLooking = 100 * time.Microsecond
)

// spin polls until something comes, or there is another reason to go on: then it
// reports true, and what has come is in the batch. It reports false when it is
// time to park.
func (l *Loop) spin(deadline reliable.Instant) (polled bool, err error) {
	until := l.now().Add(turnEvery)
	switch {
	case l.cfg.Wait == WaitSpin:
	case l.cfg.Wait == WaitAdaptive && l.pace.gap < fastGap:
		until = l.pace.at.Add(min(max(lookFor, 2*l.pace.apart), mostLooking))
	default:
		return false, nil
	}
	for {
		if err := l.poll(); err != nil {
			return false, err
		}
		now := l.now()
		if len(l.batch.Trains) > 0 || len(l.batch.Events) > 0 || now >= deadline || l.kick.Load() && l.kick.Swap(false) {
			return true, nil
		}
		if now >= until {
			return l.cfg.Wait == WaitSpin, nil
		}
		// To give way costs as much as a look, and may move us to another thread. In a
		// flood that is welcome: looks at the socket hold up who fills it.
		if l.looks++; l.cfg.Wait != WaitSpin || l.looks%yieldEvery == 0 {
			runtime.Gosched()
		}
	}
}

// yieldEvery is how many looks in vain there are between two chances for other
// goroutines, where latency is all.
const yieldEvery = 4

// turnEvery is how often a loop that spins looks at publications anyway: a
// transport that has let go of their memory says so to nobody.
const turnEvery = 20 * time.Microsecond

// spin looks for something to deliver until ctx ends or the subscription does.
// It reports whether d holds it.
func (s *Subscription) spin(ctx context.Context, d *Delivery) bool {
	for i := 1; ; i++ {
		if s.poll(d) {
			return true
		}
		if i%64 == 0 {
			if ctx.Err() != nil {
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
