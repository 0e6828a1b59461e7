package reliable

import "github.com/fanfaremq/fanfare/pubsub/events"

// faults counts the faults of one publisher by kind.
type faults [events.NumFaults]uint64

// add counts one. It reports whether it is to be told: the 1st, 2nd, 4th, 8th … is.
func (f *faults) add(kind events.Fault) (n uint64, tell bool) {
	f[kind]++
	n = f[kind]
	return n, n&(n-1) == 0
}

// toldFaults are those that a Reader finds, and who is told of them.
type toldFaults struct {
	faults
	tell func(*events.FaultError) // see TellFaults; nil: nobody listens
}

// TellFaults makes the reader call tell with the 1st, 2nd, 4th, 8th … fault of each kind
// that it finds, from within Next or Open. The error names no publisher.
func (r *Reader) TellFaults(tell func(*events.FaultError)) { r.faults.tell = tell }

func (r *Reader) fault(kind events.Fault, t *Track) {
	if n, tell := r.faults.add(kind); tell && r.faults.tell != nil {
		r.faults.tell(&events.FaultError{Topic: t.Name, Fault: kind, Count: n})
	}
}

// malformed notes that a packet of the stream does not parse.
func (st *Stream) malformed() {
	st.r.stats.Malformed++
	st.fault(events.FaultPacket)
}

// fault notes a fault of the publisher that a packet shows before it is read.
func (st *Stream) fault(kind events.Fault) {
	if n, tell := st.faults.add(kind); tell && !st.life.finished {
		e := st.r.event(EventFault, st.next)
		e.Fault = &events.FaultError{Publisher: events.PublisherID(st.Publisher), Epoch: st.Epoch, Fault: kind, Count: n}
		st.out.Deliver(e)
	}
}
