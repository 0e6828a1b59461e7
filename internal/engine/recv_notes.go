package engine

import (
	"sync"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// refusedNotes decides what is told of packets that do not prove who sent them: each reason once for each key, until
// the trust changes. Keys that are not trusted can be made up: of these maxStrange are told, and then once that there
// are more. All packets are counted (stats.Sign).
type refusedNotes struct {
	mu      sync.Mutex
	told    map[refusedKey]bool // under mu
	strange int                 // under mu: keys in told that are not trusted
	many    bool                // under mu: it is told that there are more
}

// refusedKey is a reason, and the key that packets name.
type refusedKey struct {
	verdict signed.Verdict
	key     signed.KeyID
}

// maxStrange bounds the keys that are not trusted of which is told one by one, and which are remembered for it.
const maxStrange = 64

var reasonOf = [signed.NumVerdicts]transport.UnreadableReason{
	signed.Unsigned: transport.UnreadableUnsigned, signed.Malformed: transport.UnreadableSignature, signed.Forged: transport.UnreadableSignature,
	signed.Untrusted: transport.UnreadableUntrusted, signed.Stale: transport.UnreadableSignedAt, signed.Deferred: transport.UnreadableFlood,
}

// tell notes a packet, and returns what is to be told of it: 0 for nothing.
func (n *refusedNotes) tell(k refusedKey) transport.UnreadableReason {
	n.mu.Lock()
	defer n.mu.Unlock()
	reason := reasonOf[k.verdict]
	if reason == 0 || n.told[k] {
		return 0
	}
	if k.verdict == signed.Untrusted {
		if n.strange == maxStrange {
			if n.many {
				return 0
			}
			n.many = true
			return transport.UnreadableManyUntrusted
		}
		n.strange++
	}
	if n.told == nil {
		n.told = make(map[refusedKey]bool)
	}
	n.told[k] = true
	return reason
}

// forget begins anew: others are trusted than before.
func (n *refusedNotes) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.told)
	n.strange, n.many = 0, false
}
