package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// Wait says how the loop waits for packets, and readers for messages.
type Wait uint8

const (
	// WaitAdaptive parks. It spins first where packets come so fast that to wake the loop for each train would
	// cost the publisher more than spinning costs the loop.
	WaitAdaptive Wait = iota
	// WaitPark always gives the processor up.
	WaitPark
	// WaitSpin never does: a processor for the loop, and one for each reader.
	WaitSpin
)

// waitPolicy decides how the loop waits when it has done everything that was due. Loop only.
//
//	                 ┌──────┐  packets, a call, the deadline
//	  ┌────────────► │ turn │ ◄───────────────┬──────────────────┬──────────────────┐
//	  │              └──────┘                 │                  │                  │
//	  │ more may         │                    │                  │                  │
//	  │ have come        ▼                    │                  │                  │
//	┌──────┐         ┌──────┐ packets come ┌──────┐ nothing   ┌──────┐           ┌──────┐
//	│ poll │ ◄────── │ done │ ───────────► │ spin │ ────────► │ park │    or     │ rest │
//	└──────┘         └──────┘ fast, and    └──────┘ came      └──────┘           └──────┘
//	                     │    it pays                             ▲                  ▲
//	                     └────────────────────────────────────────┴──────────────────┘
//
// Poll: the last one has most likely not taken everything. Spin: poll again and again for a while. Park: in
// Transport.Wait, which packets end. Rest: outside of the transport, where the bus has no subscription and its
// publishers do by themselves what is due.
//
// Spinning pays as long as its balance is not negative: a spin that found packets adds lookFor, and each spin takes
// off its time. Where there are fewer processors than goroutines to run, a spinning loop takes its processor from the
// publisher, or from another subscriber. While it does not pay, each spinCredit-th wait is a spin, to find out whether
// it pays again.
//
// How a transport waits in Transport.Wait is its own decision (transport/udp: flood, in flood_linux.go; transport/ud:
// spin.go). It keeps no clock: now is an argument.
type waitPolicy struct {
	mode    Wait
	arrived reliable.Instant // when packets came last
	gap     time.Duration    // from packet to packet, smoothed
	apart   time.Duration    // from batch to batch, smoothed
	yielded reliable.Instant // when spin gave other goroutines the processor last
	balance time.Duration    // in WaitAdaptive: what spinning has saved, less its time
	left    int              // waits in a row without a spin, because it does not pay
}

const (
	// fastGap is how close packets come for WaitAdaptive to spin: a flood of full trains, not a stream of single packets.
	fastGap = 2 * time.Microsecond
	// lookFor is how long it spins at least: about what a wake-up costs both sides. Where trains come further apart
	// it spins for as long as two of them take, but not longer than mostLooking: the publisher, which pays for the
	// wake-up, holds up all subscribers.
	lookFor     = 30 * time.Microsecond
	mostLooking = 100 * time.Microsecond
	// spinCredit bounds the balance on both sides, to so many times lookFor, so that a change is noticed soon.
	spinCredit = 16
	// smoothing is the weight of the past in the smoothed times: 7 in 8. A gap counts as mostGap at most, so that one
	// pause is forgotten soon.
	smoothing = 8
	mostGap   = time.Millisecond
	// yieldApart is how long it spins in vain between two chances for other goroutines, and yieldApartSpin the same
	// in WaitSpin: about one poll of a socket, and four.
	yieldApart     = time.Microsecond
	yieldApartSpin = 4 * time.Microsecond
)

// took records that packets came at now.
func (w *waitPolicy) took(now reliable.Instant, packets int) {
	apart := min(now.Sub(w.arrived), mostGap)
	w.gap += (apart/time.Duration(packets) - w.gap) / smoothing
	w.apart += (apart - w.apart) / smoothing
	w.arrived = now
}

// fast reports whether packets come as in a flood.
func (w *waitPolicy) fast() bool { return w.gap < fastGap }

// drained reports whether a poll that has found so many trains, of the most that it could,
// has most likely taken all there was, of packets that come one by one: then to wait is as
// good a way to see as another poll, and the only one if there is nothing.
func (w *waitPolicy) drained(trains, most int) bool { return trains > 0 && trains < most && !w.fast() }

// spinUntil is how long to spin, or not at all. In WaitSpin a turn ends each spin: publications are due then, too, of
// which a transport released memory without an event.
func (w *waitPolicy) spinUntil(now reliable.Instant) (until reliable.Instant, ok bool) {
	switch {
	case w.mode == WaitSpin:
		return now.Add(lookFor), true
	case w.mode == WaitAdaptive && w.fast() && w.pays():
		return w.arrived.Add(min(max(lookFor, 2*w.apart), mostLooking)), true
	}
	return 0, false
}

// pays reports whether to spin now. It counts the times that it does not.
func (w *waitPolicy) pays() bool {
	if w.balance < 0 {
		w.left = (w.left + 1) % spinCredit
		return w.left == 0
	}
	return true
}

// spun records how long a spin took, and whether packets came: then the loop need not be woken. What exceeds
// mostLooking is no spinning: the goroutine, or its thread, had to wait for the processor.
func (w *waitPolicy) spun(took time.Duration, came bool) {
	w.balance -= min(took, mostLooking)
	if came {
		w.balance += lookFor
	}
	w.balance = min(max(w.balance, -spinCredit*lookFor), spinCredit*lookFor)
}

// parks reports whether to park after a spin in vain.
func (w *waitPolicy) parks() bool { return w.mode != WaitSpin }

// yields records a poll in vain at now, and reports whether other goroutines get the processor. To
// yield costs as much as a poll of a socket, wakes another thread to look for work,
// and may move the loop there. In a flood that is welcome: polls of the socket hold up the thread that fills
// it. A poll of memory costs so little that to yield at each would cost most of all.
func (w *waitPolicy) yields(now reliable.Instant) bool {
	apart := yieldApart
	if !w.parks() {
		apart = yieldApartSpin
	}
	if now.Sub(w.yielded) < apart {
		return false
	}
	w.yielded = now
	return true
}

// rests reports whether to rest rather than to park until the deadline: unneeded says that
// nothing can come that would have to be seen at once.
func (w *waitPolicy) rests(now, deadline reliable.Instant, unneeded func() bool) bool {
	return deadline != reliable.Never && deadline.Sub(now) > loopPark/2 && unneeded()
}
