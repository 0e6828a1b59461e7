package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// Wait says how the loop waits for packets, and how readers wait for messages.
type Wait uint8

const (
	// WaitAdaptive parks. It spins first where packets come so fast that waking the loop for each train would cost the
	// publisher more than spinning costs the loop.
	WaitAdaptive Wait = iota
	// WaitPark always gives up the processor.
	WaitPark
	// WaitSpin never does: the loop takes a processor, and so does each reader.
	WaitSpin
)

// waitPolicy decides how the loop waits after it has done everything that was due. Loop only.
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
// Poll: the last poll has most likely not taken everything. Spin: poll repeatedly for a while. Park: wait in
// Transport.Wait, which packets end. Rest: wait outside the transport, if the bus has no subscription and its
// publishers do what is due themselves.
//
// Spinning pays while its balance is not negative: a spin that found packets adds minSpin, and each spin subtracts its
// time. Where there are fewer processors than runnable goroutines, a spinning loop takes its processor from the
// publisher or from another subscriber. While spinning does not pay, each spinCredit-th wait is a spin, to detect when
// it pays again.
//
// How Transport.Wait waits is the transport's decision (transport/udp: flood, in flood_linux.go; transport/ud:
// spin.go). waitPolicy reads no clock: now is an argument.
type waitPolicy struct {
	mode    Wait
	arrived reliable.Instant // when packets came last
	gap     time.Duration    // from packet to packet, smoothed
	apart   time.Duration    // from batch to batch, smoothed
	yielded reliable.Instant // when spin last gave the processor to other goroutines
	balance time.Duration    // in WaitAdaptive: the time that spinning has saved, less the time it took
	left    int              // waits in a row without a spin, because it does not pay
}

const (
	// fastGap is the time between packets below which WaitAdaptive spins: that of full trains, not of single packets.
	fastGap = 2 * time.Microsecond
	// minSpin is the shortest spin: about what a wake-up costs both sides. Where trains are further apart a spin takes
	// the time of two of them, at most maxSpin: the publisher pays for a wake-up, which delays all subscribers.
	minSpin = 30 * time.Microsecond
	maxSpin = 100 * time.Microsecond
	// spinCredit bounds the balance on both sides, as a multiple of minSpin, so that a change is noticed soon.
	spinCredit = 16
	// smoothing: the past has a weight of 7 in 8. A gap counts as at most mostGap, so that one pause is forgotten soon.
	smoothing = 8
	mostGap   = time.Millisecond
	// yieldApart is how long a spin finds nothing before other goroutines get the processor, and yieldApartSpin the
	// same in WaitSpin: about one poll of a socket, and four.
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

// fast reports whether packets come in a flood.
func (w *waitPolicy) fast() bool { return w.gap < fastGap }

// drained reports whether a poll that found this number of trains, out of most, has most likely taken all, and packets
// come one by one. Then waiting detects a packet as soon as another poll does.
func (w *waitPolicy) drained(trains, most int) bool { return trains > 0 && trains < most && !w.fast() }

// spinUntil returns until when to spin, if at all. In WaitSpin each spin ends in a turn, because the transport may
// release memory of publications without an event.
func (w *waitPolicy) spinUntil(now reliable.Instant) (until reliable.Instant, ok bool) {
	switch {
	case w.mode == WaitSpin:
		return now.Add(minSpin), true
	case w.mode == WaitAdaptive && w.fast() && w.pays():
		return w.arrived.Add(min(max(minSpin, 2*w.apart), maxSpin)), true
	}
	return 0, false
}

// pays reports whether to spin now. While spinning does not pay, it still tries one wait in spinCredit.
func (w *waitPolicy) pays() bool {
	if w.balance < 0 {
		w.left = (w.left + 1) % spinCredit
		return w.left == 0
	}
	return true
}

// spun records how long a spin took, and whether it found packets, which saved a wake-up. Time beyond maxSpin does
// not count: in it the goroutine or its thread waited for the processor.
func (w *waitPolicy) spun(took time.Duration, came bool) {
	w.balance -= min(took, maxSpin)
	if came {
		w.balance += minSpin
	}
	w.balance = min(max(w.balance, -spinCredit*minSpin), spinCredit*minSpin)
}

// parks reports whether to park after a spin that found nothing.
func (w *waitPolicy) parks() bool { return w.mode != WaitSpin }

// yields records at now a poll that found nothing, and reports whether other goroutines get the processor. Yielding
// costs as much as a poll of a socket, wakes another thread to look for work, and may move the loop there. In a flood
// that helps, because polls of the socket hold up the thread that fills it. A poll of memory costs so little that
// yielding after each would cost most of all.
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

// rests reports whether to rest until the deadline and not to park. unneeded reports whether nothing can come that the
// loop must handle at once.
func (w *waitPolicy) rests(now, deadline reliable.Instant, unneeded func() bool) bool {
	return deadline != reliable.Never && deadline.Sub(now) > loopPark/2 && unneeded()
}
