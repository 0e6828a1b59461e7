package engine

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// Each reason is reported once for each key. Untrusted keys can be forged: maxStrange of them are reported, and then
// once that there are more, so they hide nothing else. docs/protocol §29.8.
func TestRefusedReports(t *testing.T) {
	var r refusedReports
	for round := range 3 {
		for i := range 10 * maxStrange {
			k := refusedKey{signed.Untrusted, signed.KeyID(1000 + i)}
			want := transport.UnreadableReason(0)
			switch {
			case i < maxStrange:
				want = transport.UnreadableUntrusted
			case i == maxStrange:
				want = transport.UnreadableManyUntrusted
			}
			if got := r.due(k); got != want {
				t.Fatalf("round %d, key %d: %d is reported, want %d", round, i, got, want)
			}
			if got := r.due(k); got != 0 {
				t.Fatalf("round %d, key %d: %d is reported again", round, i, got)
			}
		}
		if len(r.reported) != maxStrange {
			t.Errorf("%d keys are remembered", len(r.reported))
		}
		for _, v := range []signed.Verdict{signed.Unsigned, signed.Malformed, signed.Stale, signed.Forged, signed.Deferred} {
			for again := range 2 {
				if got := r.due(refusedKey{v, 7}); (got == reasonOf[v]) != (again == 0) {
					t.Errorf("round %d, verdict %d: %d is reported", round, v, got)
				}
			}
		}
		if got := r.due(refusedKey{signed.Replayed, 7}); got != 0 {
			t.Errorf("a replayed packet is reported: %d", got)
		}
		r.forget() // the trust has changed
	}
}
