package losses

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// Advice on unreadable packets matches the reason: keyrings for sealed packets, trust for signed
// ones, clocks if those differ, and the bus's own keys if they have expired.
func TestUnreadableAdvice(t *testing.T) {
	const keyring, trust, clocks, version, own = "the same keyring", "file of trust=", "clocks of both", "same version", "to the keyring of app[7], which sends nothing"
	all := []string{keyring, trust, clocks, version, own}
	for reason, want := range map[transport.UnreadableReason]string{
		transport.UnreadableKey: keyring, transport.UnreadableExpired: keyring, transport.UnreadableOpen: keyring, transport.UnreadableSealed: keyring, transport.UnreadableClock: clocks,
		transport.UnreadableForged: keyring, transport.UnreadableVersion: version, transport.UnreadableMany: keyring, transport.UnreadableManyKeys: keyring,
		transport.UnreadableUnsigned: trust, transport.UnreadableUntrusted: trust, transport.UnreadableSignature: trust, transport.UnreadableSignedAt: clocks, transport.UnreadableFlood: trust, transport.UnreadableManyUntrusted: trust,
		transport.UnreadableNoKey: own,
	} {
		err := (&transport.UnreadableError{Reason: reason, Key: 7, From: "shm://signed-and-sealed#7"}).Error()
		do := Do("packets_unreadable", Evidence{Process: "app[7]", Err: err})
		quoted := "“" + err + "”"
		advised := strings.ReplaceAll(do, quoted, "")
		for _, about := range all {
			if strings.Contains(advised, about) != (about == want) {
				t.Errorf("reason %d: %q, want advice about %q", reason, advised, want)
			}
		}
		if !strings.Contains(do, quoted) || (reason == transport.UnreadableNoKey) == strings.Contains(advised, "find out wh") {
			t.Errorf("reason %d: advice %q, want it with %q, and a search for the sender unless the key is missing", reason, do, quoted)
		}
	}
	if do := Do("packets_unreadable", Evidence{}); !strings.Contains(do, keyring) || !strings.Contains(do, trust) {
		t.Errorf("advice for an unknown reason %q, want it about the keyring and trust", do)
	}
	if do := Do("unsent", Evidence{}); !strings.Contains(do, "keyring in which no key is valid") {
		t.Errorf("advice for unsent messages %q, want that the keyring has no valid key", do)
	}
}
