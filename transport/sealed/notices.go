package sealed

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// notices limits the reports about packets that do not open: each reason once for each key, until the keys change.
// Clocks that differ are reported once a minute, because that ends running streams and an attacker could have caused
// the first report; a missing key to send with is also reported once a minute. Publishers' goroutines use it, too.
type notices struct {
	some   atomic.Bool  // waiting is not empty
	minute atomic.Int64 // of the latest tick

	mu          sync.Mutex
	reported    map[notice]bool   // under mu
	unknownKeys int               // under mu: number of keys in reported that are not in the keyring
	many        bool              // under mu: it was reported that there are more of them
	waiting     []transport.Event // under mu
}

type notice struct {
	why transport.UnreadableReason
	key uint32
}

// maxUnknownKeys bounds the unknown keys that are reported one by one, because ids can be forged; then one report says
// that there are more. Other reasons concern keys in the keyring, or no key.
const maxUnknownKeys = 64

var reasons = [numVerdicts]transport.UnreadableReason{
	unsealed: transport.UnreadableOpen, otherVersion: transport.UnreadableVersion, unknownKey: transport.UnreadableKey,
	expiredKey: transport.UnreadableExpired, stale: transport.UnreadableClock, forged: transport.UnreadableForged,
	deferred: transport.UnreadableMany,
}

// shouldReport reports whether to report packet p, and records that it was reported.
func (n *notices) shouldReport(v verdict, p []byte) (notice, bool) {
	x := notice{why: reasons[v]}
	switch v {
	case unknownKey, expiredKey, forged, stale:
		x.key = header(p).key()
	case unsealed, otherVersion, deferred:
	default:
		return x, false
	}
	return n.once(x)
}

// once returns the notice to report for x, if any: x, or that there are more unknown keys.
func (n *notices) once(x notice) (notice, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reported[x] {
		return x, false
	}
	if x.why == transport.UnreadableKey {
		if n.unknownKeys >= maxUnknownKeys {
			first := !n.many
			n.many = true
			return notice{why: transport.UnreadableManyKeys}, first
		}
		n.unknownKeys++
	}
	if n.reported == nil {
		n.reported = make(map[notice]bool)
	}
	n.reported[x] = true
	return x, true
}

// add queues x for take.
func (n *notices) add(x notice, from string, skew time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(n.waiting, transport.Event{
		Kind: transport.Unreadable, Err: &transport.UnreadableError{Reason: x.why, Key: x.key, From: from, Skew: skew},
	})
	n.some.Store(true)
}

func (n *notices) pending() bool { return n.some.Load() }

// drain appends the queued events to dst, up to its capacity.
func (n *notices) drain(dst []transport.Event) []transport.Event {
	if !n.some.Load() {
		return dst
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	k := min(cap(dst)-len(dst), len(n.waiting))
	dst = append(dst, n.waiting[:k]...)
	n.waiting = append(n.waiting[:0], n.waiting[k:]...)
	n.some.Store(len(n.waiting) > 0)
	return dst
}

// tick allows, once a minute, another report that clocks differ or that there is no key.
func (n *notices) tick(minute int64) {
	if was := n.minute.Load(); minute <= was || !n.minute.CompareAndSwap(was, minute) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for x := range n.reported {
		if x.why == transport.UnreadableClock || x.why == transport.UnreadableNoKey {
			delete(n.reported, x)
		}
	}
}

// forget clears all state after a change of the keys.
func (n *notices) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.reported)
	n.unknownKeys, n.many = 0, false
}
