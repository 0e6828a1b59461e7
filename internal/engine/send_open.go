package engine

import (
	"math"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// open is what was published and has no sequence yet.
//
// Most messages are appended without mu, by the goroutine in the gate, until p.look reads the clock.
type open struct {
	w       *reliable.Writer
	gate    gate             // a goroutine in it may use w; all else is under mu
	granted uint64           // how many it was opened for
	opened  reliable.Instant // when the oldest message in it came; 0: none
	count   uint64           // messages since then, without those that have passed the gate
	seen    bool             // p.look has been called since it was opened
	most    uint64           // messages that may pass before it is due, as they came so far
	large   bool             // a publisher is in the middle of a large message
}

// take gives the caller, which holds mu, sole use of the open packets.
func (o *open) take() {
	passed := o.granted - o.gate.shut()
	if o.granted = 0; o.opened != 0 { // else what was appended has been sent by others
		o.count += passed
		o.most -= min(passed, o.most)
	}
}

// allAssigned reports whether nothing is open any more. The caller holds mu.
func (o *open) allAssigned() bool {
	o.take()
	return !o.w.Pending() && !o.large
}

// pace records that p.look ran at now: open packets wait for linger. The next look is when it is due, judged by the
// distance of its messages.
func (o *open) pace(now reliable.Instant, linger time.Duration) {
	o.most = math.MaxUint64 >> 1
	passed := now.Sub(o.opened)
	if apart := passed / time.Duration(max(o.count, 2)-1); apart > 0 && passed < linger {
		o.most = uint64((linger - passed) / apart)
	}
}

// give lets messages be appended without mu, if there is nothing else to heed: until there are four times as many, or
// what is open is due. A train that is not timed, as after a send that panicked, needs a look at the next message.
func (o *open) give(shut bool) {
	o.granted = 0
	if o.count > 0 && o.opened != 0 && !shut && !o.large {
		o.granted = min(3*o.count-1, o.most)
	}
	o.gate.open(o.granted)
}
