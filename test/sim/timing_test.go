package sim

import (
	"testing"
	"time"
)

// Receivers report delivery times, also of repaired packets. The simulation checks each. docs/protocol §5.12.
func TestDeliveriesAreTimed(t *testing.T) {
	o := Simple(11, 3, 20_000)
	o.Publishers[0].Gap = time.Millisecond
	sound := mustRun(t, o)
	if sound.Timed < 100 || sound.timed > 5*time.Millisecond {
		t.Errorf("%d deliveries were timed, the longest took %v; want hundreds, and more than 0", sound.Timed, sound.timed)
	}
	o.Net.Loss = 10 * Percent
	lossy := mustRun(t, o)
	t.Logf("%d deliveries were timed without loss, at most %v, and %d with, at most %v", sound.Timed, sound.timed, lossy.Timed, lossy.timed)
	if lossy.Timed < 100 || lossy.timed <= sound.timed {
		t.Errorf("with loss %d deliveries were timed, the longest took %v, %v without loss, want at least 100, and longer", lossy.Timed, lossy.timed, sound.timed)
	}
	if lossy.Receiver.ClocksApart > 0 {
		t.Errorf("%d clocks reported as different, want none", lossy.Receiver.ClocksApart)
	}
}
