package engine

import (
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A fault that several readers find is reported once per kind, publisher and epoch. The memory for faults is bounded.
func TestFaultsAreReportedOnce(t *testing.T) {
	var f faultNotes
	for i, c := range []struct {
		err  events.FaultError
		want bool
	}{
		{events.FaultError{Publisher: 1, Epoch: 1, Fault: events.FaultHole, Count: 1}, true},
		{events.FaultError{Publisher: 1, Epoch: 1, Fault: events.FaultHole, Count: 1}, false}, // another subscription
		{events.FaultError{Publisher: 1, Epoch: 1, Fault: events.FaultHole, Count: 2}, true},
		{events.FaultError{Publisher: 1, Epoch: 1, Fault: events.FaultHole, Count: 1}, false}, // a late report
		{events.FaultError{Publisher: 1, Epoch: 1, Fault: events.FaultPacket, Count: 1}, true},
		{events.FaultError{Publisher: 1, Epoch: 2, Fault: events.FaultHole, Count: 1}, true},
		{events.FaultError{Publisher: 2, Epoch: 1, Fault: events.FaultHole, Count: 1}, true},
	} {
		if got := f.due(&c.err); got != c.want {
			t.Errorf("step %d: %v: due returned %v, want %v", i, &c.err, got, c.want)
		}
	}
	for p := range uint64(3 * faultsKept) {
		f.due(&events.FaultError{Publisher: events.ID(p), Count: 1})
		if len(f.reported) > faultsKept {
			t.Fatalf("%d faults are stored, want at most %d", len(f.reported), faultsKept)
		}
	}
}
