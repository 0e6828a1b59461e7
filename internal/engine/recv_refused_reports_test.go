package engine

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// Each reason is reported once per key. Untrusted keys can be forged, so maxStrange of them are reported, and then once
// that there are more. They hide no other report. docs/protocol §29.8.
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
				t.Fatalf("round %d, key %d: reported %d, want %d", round, i, got, want)
			}
			if got := r.due(k); got != 0 {
				t.Fatalf("round %d, key %d: reported %d again, want 0", round, i, got)
			}
		}
		if len(r.reported) != maxStrange {
			t.Errorf("%d keys are stored, want %d", len(r.reported), maxStrange)
		}
		for _, v := range []signed.Verdict{signed.Unsigned, signed.Malformed, signed.Stale, signed.Forged, signed.Deferred} {
			for again := range 2 {
				if got := r.due(refusedKey{v, 7}); (got == reasonOf[v]) != (again == 0) {
					t.Errorf("round %d, verdict %d: reported %d, want %d once", round, v, got, reasonOf[v])
				}
			}
		}
		if got := r.due(refusedKey{signed.Replayed, 7}); got != 0 {
			t.Errorf("reported %d for a replayed packet, want 0", got)
		}
		r.forget() // the trust has changed
	}
}
