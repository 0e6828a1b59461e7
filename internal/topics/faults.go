package topics

import "github.com/fanfaremq/fanfare/pubsub/events"

// toldFaults are those that a Reader finds, and who is told of them.
type toldFaults struct {
	events.FaultCounts
	tell func(*events.FaultError) // see TellFaults; nil: nobody listens
}

// TellFaults makes the reader call tell with the 1st, 2nd, 4th, 8th … fault of each kind
// that it finds, from within Next or Open. The error names no publisher.
func (r *Reader) TellFaults(tell func(*events.FaultError)) { r.faults.tell = tell }

func (r *Reader) fault(kind events.Fault, t *Track) {
	if n, tell := r.faults.Add(kind); tell && r.faults.tell != nil {
		r.faults.tell(&events.FaultError{Topic: t.Name, Fault: kind, Count: n})
	}
}
