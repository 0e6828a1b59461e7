package engine

import (
	"testing"

	"github.com/fanfaremq/fanfare/reliable"
)

// A fault that several readers find is told of once; each kind, publisher and epoch by
// itself; and what is remembered is bounded.
func TestFaultsAreToldOnce(t *testing.T) {
	var f faultNotes
	for i, c := range []struct {
		err  reliable.FaultError
		tell bool
	}{
		{reliable.FaultError{Publisher: 1, Epoch: 1, Fault: reliable.FaultHole, Count: 1}, true},
		{reliable.FaultError{Publisher: 1, Epoch: 1, Fault: reliable.FaultHole, Count: 1}, false}, // another subscription
		{reliable.FaultError{Publisher: 1, Epoch: 1, Fault: reliable.FaultHole, Count: 2}, true},
		{reliable.FaultError{Publisher: 1, Epoch: 1, Fault: reliable.FaultHole, Count: 1}, false}, // a late one
		{reliable.FaultError{Publisher: 1, Epoch: 1, Fault: reliable.FaultPacket, Count: 1}, true},
		{reliable.FaultError{Publisher: 1, Epoch: 2, Fault: reliable.FaultHole, Count: 1}, true},
		{reliable.FaultError{Publisher: 2, Epoch: 1, Fault: reliable.FaultHole, Count: 1}, true},
	} {
		if got := f.tell(&c.err); got != c.tell {
			t.Errorf("%d: %v: told is %v", i, &c.err, got)
		}
	}
	for p := range uint64(3 * faultsKept) {
		f.tell(&reliable.FaultError{Publisher: p, Count: 1})
		if len(f.told) > faultsKept {
			t.Fatalf("%d are remembered", len(f.told))
		}
	}
}
