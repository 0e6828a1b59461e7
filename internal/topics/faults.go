package topics

import "github.com/fanfaremq/fanfare/pubsub/events"

// readerFaults are those that a Reader finds, and the function that reports them.
type readerFaults struct {
	events.FaultCounts
	emit func(*events.FaultError) // see OnFault; nil: they are only counted
}

// OnFault makes the reader call emit with the 1st, 2nd, 4th, 8th … fault of each kind
// that it finds, from within Next or Open. The error names no publisher.
func (r *Reader) OnFault(emit func(*events.FaultError)) { r.faults.emit = emit }

func (r *Reader) fault(kind events.Fault, t *Track) {
	if n, emit := r.faults.Add(kind); emit && r.faults.emit != nil {
		r.faults.emit(&events.FaultError{Topic: t.Name, Fault: kind, Count: n})
	}
}
