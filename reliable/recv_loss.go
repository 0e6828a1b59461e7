package reliable

import "time"

// LossStep is a step in the recovery of missing packets.
type LossStep uint8

const (
	// LossFound: packets were found missing.
	LossFound LossStep = iota
	// LossAsked: packets are requested for the first time, Took after they were found missing.
	LossAsked
	// LossNAK: one NAK requests Count packets, the first of them Seq. Some may have been requested before.
	LossNAK
	// LossRepaired: a repair has arrived, Took after the packet was found missing, and Asked after the last request; Asked
	// is 0 if only other receivers requested it.
	LossRepaired
	// LossDelivered: a repaired packet was delivered in order, Took after it arrived.
	LossDelivered
)

// LossEvent reports a step for packets of a stream, Count from Seq on, to a Sink. Packets of the history are not lost:
// only LossNAK reports them. Packets that are given up are a gap at the stream's Output.
type LossEvent struct {
	Step        LossStep
	Seq, Count  uint64
	Took, Asked time.Duration
}

// loss reports a step to the sink.
func (st *Stream) loss(step LossStep, seq, count uint64, took, asked time.Duration) {
	st.r.sink.Loss(st, LossEvent{Step: step, Seq: seq, Count: count, Took: took, Asked: asked})
}

// repaired reports a missing packet that arrived as a repair.
func (st *Stream) repaired(now Instant, seq uint64, e *entry) {
	asked := time.Duration(0)
	if e.tries > 0 {
		asked = max(now.Sub(e.asked), 1)
	}
	st.loss(LossRepaired, seq, 1, st.r.up(now).sub(e.since), asked)
}

// reportDelivered reports the delivery of a repair that waited for earlier packets.
func (st *Stream) reportDelivered(now Instant, e *entry) {
	st.loss(LossDelivered, st.next, 1, st.r.up(now).sub(e.since), 0)
	e.since = 0
}
