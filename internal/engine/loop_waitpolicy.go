package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// waitPolicy decides how the loop waits when it has done what there was to do. Loop only.
//
//	                 ┌──────┐  packets, a call, the deadline
//	  ┌────────────► │ turn │ ◄───────────────┬──────────────────┬──────────────────┐
//	  │              └──────┘                 │                  │                  │
//	  │ more may         │                    │                  │                  │
//	  │ have come        ▼                    │                  │                  │
//	┌──────┐         ┌──────┐ looked long  ┌──────┐ nothing   ┌──────┐           ┌──────┐
//	│ poll │ ◄────── │ done │ ───────────► │ spin │ ────────► │ park │    or     │ rest │
//	└──────┘         └──────┘  packets     └──────┘ came      └──────┘           └──────┘
//	                     │     come fast, and it pays             ▲                  ▲
//	                     └────────────────────────────────────────┴──────────────────┘
//
// Poll: the last one has most likely not taken all there is. Spin: look again and again for
// a while, since to be woken would cost the publisher more than looking costs us. Park: in
// Transport.Wait, which packets end. Rest: outside of the transport, for what nobody
// subscribes with and whose publishers do by themselves what is due.
//
// How a transport waits in Transport.Wait is its own decision (transport/udp: flood, in
// flood_linux.go; transport/ud: spin.go). It keeps no clock: now is an argument.
type waitPolicy struct {
	mode    Wait
	arrived reliable.Instant // when packets came last
	gap     time.Duration    // from packet to packet, smoothed
	apart   time.Duration    // from batch to batch, smoothed
	yielded reliable.Instant // when spin gave other goroutines the processor last
	looked  reliable.Instant // when spin has read the clock last
	looks   int              // after how many looks in vain it did
	account spinAccount      // in WaitAdaptive
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
	// arrivalShare is the weight of the past in the smoothed times: 7 in 8. A gap
	// counts as mostGap at most, so that one pause is forgotten soon.
	arrivalShare = 8
	mostGap      = time.Millisecond
	// turnEvery is how often a loop that never parks looks at publications anyway: a
	// transport that has released their memory says so to nobody.
	turnEvery = 20 * time.Microsecond
	// yieldApart is how long it looks in vain between two chances for other goroutines, and
	// yieldApartSpin the same where latency is all: about one look at a socket, and four.
	yieldApart     = time.Microsecond
	yieldApartSpin = 4 * time.Microsecond
	// clockApart is how long looks in vain may take before the clock is read again, and mostLooks how many they may be. To
	// read it takes as long as to look at memory, and what comes meanwhile waits.
	clockApart = 200 * time.Nanosecond
	mostLooks  = 8
)

// took notes that packets came at now.
func (w *waitPolicy) took(now reliable.Instant, packets int) {
	apart := min(now.Sub(w.arrived), mostGap)
	w.gap += (apart/time.Duration(packets) - w.gap) / arrivalShare
	w.apart += (apart - w.apart) / arrivalShare
	w.arrived = now
}

// fast reports whether packets come as in a flood.
func (w *waitPolicy) fast() bool { return w.gap < fastGap }

// drained reports whether a poll that has found so many trains, of the most that it could,
// has most likely taken all there was, of packets that come one by one: then to wait is as
// good a way to see as another poll, and the only one if there is nothing.
func (w *waitPolicy) drained(trains, most int) bool { return trains > 0 && trains < most && !w.fast() }

// spinUntil is how long to spin, or not at all.
func (w *waitPolicy) spinUntil(now reliable.Instant) (until reliable.Instant, ok bool) {
	switch {
	case w.mode == WaitSpin:
		return now.Add(turnEvery), true
	case w.mode == WaitAdaptive && w.fast() && w.account.pays():
		return w.arrived.Add(min(max(lookFor, 2*w.apart), mostLooking)), true
	}
	return 0, false
}

// parks reports whether to park when it was spun in vain.
func (w *waitPolicy) parks() bool { return w.mode != WaitSpin }

// yields notes a look in vain at now, and reports whether other goroutines get the processor. To
// give way costs as much as a look at a socket, wakes another thread to look for work,
// and may move the loop there. In a flood that is welcome: looks at the socket hold up who fills
// it. A look at memory costs so little that to give way at each would cost most of all.
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

// vain notes that looks in vain have come to now, and returns after how many more the clock is to be read again:
// one where a look is a system call, and where latency is all several at memory. In a flood these would take the
// line of the cache from who writes it.
func (w *waitPolicy) vain(now reliable.Instant) int {
	each := now.Sub(w.looked) / time.Duration(max(w.looks, 1))
	w.looked, w.looks = now, 1
	if each > 0 && !w.parks() {
		w.looks = int(min(max(clockApart/each, 1), mostLooks))
	}
	return w.looks
}

// rests reports whether to rest rather than to park until the deadline: unneeded says that
// nothing can come that would have to be seen at once.
func (w *waitPolicy) rests(now, deadline reliable.Instant, unneeded func() bool) bool {
	return deadline != reliable.Never && deadline.Sub(now) > loopPark/2 && unneeded()
}
