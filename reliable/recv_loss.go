package reliable

import "time"

// LossStep is a step on the way of packets that were found missing.
type LossStep uint8

const (
	// LossFound: they were found missing.
	LossFound LossStep = iota
	// LossAsked: they are asked for the first time, Took after they were found missing.
	LossAsked
	// LossNAK: one NAK asks for Count packets, Seq the first of them. Some may have been
	// asked for before.
	LossNAK
	// LossRepaired: a repair has come, Took after the packet was found missing, and Asked
	// after it was asked for last; that is 0 if only others have asked for it.
	LossRepaired
	// LossDelivered: what was repaired is delivered in its order, Took after it had come.
	LossDelivered
)

// LossEvent is what a Sink is told of packets of a stream, Count from Seq on. Those that were
// sent before the receiver came, and fetched, are not lost, and not told of but in LossNAK.
// Those that are given up are a gap at the stream's Output.
type LossEvent struct {
	Step        LossStep
	Seq, Count  uint64
	Took, Asked time.Duration
}

// loss tells the sink of one.
func (st *Stream) loss(step LossStep, seq, count uint64, took, asked time.Duration) {
	st.r.sink.Loss(st, LossEvent{Step: step, Seq: seq, Count: count, Took: took, Asked: asked})
}

// repaired tells of a packet that has come, as a repair, and is no more missing.
func (st *Stream) repaired(now Instant, seq uint64, e *entry) {
	asked := time.Duration(0)
	if e.tries > 0 {
		asked = max(now.Sub(e.asked), 1)
	}
	st.loss(LossRepaired, seq, 1, st.r.up(now).sub(e.since), asked)
}

// tellDelivered tells of a repair that has waited for others, and is delivered.
func (st *Stream) tellDelivered(now Instant, e *entry) {
	st.loss(LossDelivered, st.next, 1, st.r.up(now).sub(e.since), 0)
	e.since = 0
}
