package topics

import "github.com/fanfaremq/fanfare/pubsub/events"

// readerFaults counts the faults that a Reader finds.
type readerFaults struct {
	events.FaultCounts
	emit func(*events.FaultError) // set by OnFault; nil: faults are only counted
}

// OnFault makes the reader call emit for the 1st, 2nd, 4th, 8th … fault of each kind, within Next or Open. The error
// names no publisher.
func (r *Reader) OnFault(emit func(*events.FaultError)) { r.faults.emit = emit }

func (r *Reader) fault(kind events.Fault, t *Track) {
	if n, emit := r.faults.Add(kind); emit && r.faults.emit != nil {
		r.faults.emit(&events.FaultError{Topic: t.Name, Fault: kind, Count: n})
	}
}
