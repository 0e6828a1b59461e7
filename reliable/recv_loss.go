package reliable

import "time"

// LossStep is a step on the way of packets that were found missing.
type LossStep uint8

const (
	// LossFound: they were found missing.
	LossFound LossStep = iota
	// LossAsked: they are asked for the first time, Took after they were found missing.
	LossAsked
	// LossNAK: one NAK asks for Count packets, Seq the first of them. Some may have been asked for before.
	LossNAK
	// LossRepaired: a repair has come, Took after the packet was found missing, and Asked
	// after it was asked for last; that is 0 if only others have asked for it.
	LossRepaired
	// LossDelivered: what was repaired is delivered in its order, Took after it had come.
	LossDelivered
)

// LossEvent reports what happened to packets of a stream, Count from Seq on, to a Sink. Packets that were sent before
// the receiver joined, and are fetched, are not lost: only LossNAK reports them. Packets that are given up are a gap at
// the stream's Output.
type LossEvent struct {
	Step        LossStep
	Seq, Count  uint64
	Took, Asked time.Duration
}

// loss emits one to the sink.
func (st *Stream) loss(step LossStep, seq, count uint64, took, asked time.Duration) {
	st.r.sink.Loss(st, LossEvent{Step: step, Seq: seq, Count: count, Took: took, Asked: asked})
}

// repaired reports a missing packet that has arrived as a repair.
func (st *Stream) repaired(now Instant, seq uint64, e *entry) {
	asked := time.Duration(0)
	if e.tries > 0 {
		asked = max(now.Sub(e.asked), 1)
	}
	st.loss(LossRepaired, seq, 1, st.r.up(now).sub(e.since), asked)
}

// reportDelivered reports a repair that has waited for others, and is delivered.
func (st *Stream) reportDelivered(now Instant, e *entry) {
	st.loss(LossDelivered, st.next, 1, st.r.up(now).sub(e.since), 0)
	e.since = 0
}
