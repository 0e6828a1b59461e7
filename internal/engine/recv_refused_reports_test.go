package engine

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// Each reason is told once for each key, and of keys that are not trusted, which can be made up, maxStrange and then once
// that there are more: they hide nothing else. docs/protocol §29.8.
func TestRefusedNotes(t *testing.T) {
	var n refusedNotes
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
			if got := n.due(k); got != want {
				t.Fatalf("round %d, key %d: %d is told, want %d", round, i, got, want)
			}
			if got := n.due(k); got != 0 {
				t.Fatalf("round %d, key %d: %d is told again", round, i, got)
			}
		}
		if len(n.reported) != maxStrange {
			t.Errorf("%d keys are remembered", len(n.reported))
		}
		for _, v := range []signed.Verdict{signed.Unsigned, signed.Malformed, signed.Stale, signed.Forged, signed.Deferred} {
			for again := range 2 {
				if got := n.due(refusedKey{v, 7}); (got == reasonOf[v]) != (again == 0) {
					t.Errorf("round %d, verdict %d: %d is told", round, v, got)
				}
			}
		}
		if got := n.due(refusedKey{signed.Replayed, 7}); got != 0 {
			t.Errorf("what is played back is told: %d", got)
		}
		n.forget() // the trust has changed
	}
}
