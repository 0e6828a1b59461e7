package sim

import "testing"

// Packets with an unknown codec are lost as unreadable, which is reported, and are not requested;
// all others are delivered, even with losses. docs/protocol §13.6.
func TestUnreadable(t *testing.T) {
	for _, loss := range []Ratio{0, 5 * Percent} {
		for _, compress := range []string{"", "s2"} {
			o := compressed(1, compress, false)
			o.Net.Loss, o.Publishers[0].Unreadable = loss, 10*Percent
			r := mustRun(t, o)
			x := r.Receiver
			if x.Unreadable == 0 || x.LostUnreadable != x.Unreadable || x.Lost != x.LostUnreadable || r.Unsupported == 0 || r.Messages+r.GapMessages != 2*5000 {
				t.Errorf("loss %v, compress %q: %d unreadable, %d of %d losses for that reason, %d reports; %d messages and %d lost", loss, compress, x.Unreadable, x.LostUnreadable, x.Lost, r.Unsupported, r.Messages, r.GapMessages)
			}
			if (x.NAKs > 0) != (loss > 0) || (x.Repaired > 0) != (loss > 0) {
				t.Errorf("loss %v, compress %q: %d NAKs, %d repaired, want some with loss only", loss, compress, x.NAKs, x.Repaired)
			}
		}
	}
}
