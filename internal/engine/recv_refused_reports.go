package engine

import (
	"sync"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// refusedReports decides which packets without a valid proof of their sender are reported: each reason once per key,
// until the trust changes. Untrusted keys can be forged: maxStrange of them are reported, and then once that there are
// more. stats.Sign counts all packets.
type refusedReports struct {
	mu       sync.Mutex
	reported map[refusedKey]bool // under mu
	strange  int                 // under mu: untrusted keys in reported
	many     bool                // under mu: it was reported that there are more
}

// refusedKey is a reason, and the key that packets name.
type refusedKey struct {
	verdict signed.Verdict
	key     signed.KeyID
}

// maxStrange bounds the untrusted keys that are reported and remembered.
const maxStrange = 64

var reasonOf = [signed.NumVerdicts]transport.UnreadableReason{
	signed.Unsigned:  transport.UnreadableUnsigned,
	signed.Malformed: transport.UnreadableSignature, signed.Forged: transport.UnreadableSignature,
	signed.Untrusted: transport.UnreadableUntrusted,
	signed.Stale:     transport.UnreadableSignedAt, signed.Deferred: transport.UnreadableFlood,
}

// due records a packet, and returns the reason to report; 0: none.
func (r *refusedReports) due(k refusedKey) transport.UnreadableReason {
	r.mu.Lock()
	defer r.mu.Unlock()
	reason := reasonOf[k.verdict]
	if reason == 0 || r.reported[k] {
		return 0
	}
	if k.verdict == signed.Untrusted {
		if r.strange == maxStrange {
			if r.many {
				return 0
			}
			r.many = true
			return transport.UnreadableManyUntrusted
		}
		r.strange++
	}
	if r.reported == nil {
		r.reported = make(map[refusedKey]bool)
	}
	r.reported[k] = true
	return reason
}

// forget clears the reports: the trust has changed.
func (r *refusedReports) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.reported)
	r.strange, r.many = 0, false
}
