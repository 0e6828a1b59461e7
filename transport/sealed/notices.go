package sealed

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// notices are what the user is to be told of packets that do not open: each reason once for
// each key, until the keys change; once a minute that clocks differ, since that ends streams that run, and anybody can have it told before,
// and that nothing is sent for want of a key.
// Publishers' goroutines use it, too.
type notices struct {
	some   atomic.Bool  // take has something to give
	minute atomic.Int64 // as tick was told

	mu      sync.Mutex
	told    map[notice]bool   // under mu
	lacking int               // under mu: keys in told that are not in the keyring
	many    bool              // under mu: it is told that there are more of those
	waiting []transport.Event // under mu
}

type notice struct {
	why transport.UnreadableReason
	key uint32
}

// maxLacking bounds the keys of which is told that they are lacking: ids can be made up. All
// other reasons are of keys that are there, or of none. It is told once that there are more.
const maxLacking = 64

var reasons = [numVerdicts]transport.UnreadableReason{
	unsealed: transport.UnreadableOpen, otherVersion: transport.UnreadableVersion, unknownKey: transport.UnreadableKey,
	expiredKey: transport.UnreadableExpired, stale: transport.UnreadableClock, forged: transport.UnreadableForged,
	deferred: transport.UnreadableMany,
}

// wants reports whether the user is to be told of packet p, and notes that he is.
func (n *notices) wants(v verdict, p []byte) (notice, bool) {
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

// once returns what is to be told in the place of x, if anything is.
func (n *notices) once(x notice) (notice, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[x] {
		return x, false
	}
	if x.why == transport.UnreadableKey {
		if n.lacking >= maxLacking {
			first := !n.many
			n.many = true
			return notice{why: transport.UnreadableManyKeys}, first
		}
		n.lacking++
	}
	if n.told == nil {
		n.told = make(map[notice]bool)
	}
	n.told[x] = true
	return x, true
}

// tell puts it among what take gives.
func (n *notices) tell(x notice, from string, skew time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(n.waiting, transport.Event{
		Group: transport.Unicast, State: transport.Unreadable,
		Err: &transport.UnreadableError{Reason: x.why, Key: x.key, From: from, Skew: skew},
	})
	n.some.Store(true)
}

func (n *notices) pending() bool { return n.some.Load() }

// take appends what is to be told to dst, up to its capacity.
func (n *notices) take(dst []transport.Event) []transport.Event {
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

// tick has it told once more that clocks differ and that there is no key, if another minute has begun.
func (n *notices) tick(minute int64) {
	if was := n.minute.Load(); minute <= was || !n.minute.CompareAndSwap(was, minute) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for x := range n.told {
		if x.why == transport.UnreadableClock || x.why == transport.UnreadableNoKey {
			delete(n.told, x)
		}
	}
}

// forget begins anew: the keys have changed.
func (n *notices) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.told)
	n.lacking, n.many = 0, false
}
