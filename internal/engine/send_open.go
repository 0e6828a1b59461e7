package engine

import (
	"math"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// open holds published messages that have no sequence yet.
//
// Most messages are appended without mu, by the goroutine in the gate, until p.look must read the clock.
type open struct {
	w       *topics.Writer
	gate    gate             // a goroutine in it may use w; the rest is under mu
	granted uint64           // number of messages that the gate was opened for
	opened  reliable.Instant // when the oldest open message came; 0: none
	count   uint64           // messages since then, without those in the gate's grant
	seen    bool             // p.look was called since the train was opened
	most    uint64           // messages that may pass before the train is due, at their rate so far
	large   bool             // a publisher is in the middle of a large message
	// released are topics with messages that may have no sequence yet, in the order of their release
	released []releasedTopic
}

// releasedTopic is a topic that loses a user when the writer's first begun packets have sequences.
type releasedTopic struct {
	t     *topics.Topic
	begun uint64
}

// take gives the caller, which holds mu, sole use of the open packets.
func (o *open) take() {
	passed := o.granted - o.gate.shut()
	if o.granted = 0; o.opened != 0 { // otherwise others have sent what was appended
		o.count += passed
		o.most -= min(passed, o.most)
	}
}

// allAssigned reports whether nothing is open. The caller holds mu.
func (o *open) allAssigned() bool {
	o.take()
	return !o.w.Pending() && !o.large
}

// pace records that p.look ran at now. Open packets wait for linger; most is how many messages come until then at their
// rate so far.
func (o *open) pace(now reliable.Instant, linger time.Duration) {
	o.most = math.MaxUint64 >> 1
	passed := now.Sub(o.opened)
	if apart := passed / time.Duration(max(o.count, 2)-1); apart > 0 && passed < linger {
		o.most = uint64((linger - passed) / apart)
	}
}

// give lets messages be appended without mu, unless something else must be checked: until there are four times as many,
// or the train is due. A train that is not timed, as after a send that panicked, needs p.look at the next message.
func (o *open) give(shut bool) {
	o.granted = 0
	if o.count > 0 && o.opened != 0 && !shut && !o.large {
		o.granted = min(3*o.count-1, o.most)
	}
	o.gate.open(o.granted)
}
