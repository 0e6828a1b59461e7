package reliable

import "github.com/fanfaremq/fanfare/pubsub/events"

// malformed records that a packet of the stream does not parse.
func (st *Stream) malformed() {
	st.r.stats.Malformed++
	st.fault(events.FaultPacket)
}

// fault records a fault of the publisher that is found when a packet arrives, and delivers an EventFault if one is due.
func (st *Stream) fault(kind events.Fault) {
	if n, emit := st.faults.Add(kind); emit && !st.life.finished {
		e := st.r.event(EventFault, st.next)
		e.Fault = &events.FaultError{Publisher: st.Publisher, Epoch: st.Epoch, Fault: kind, Count: n}
		st.out.Deliver(e)
	}
}
