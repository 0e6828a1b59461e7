package sealed

import (
	"crypto/cipher"

	"github.com/fanfaremq/fanfare/transport"
)

// known is one sender of which a packet has verified.
type known struct {
	name   sender
	index  uint32 // of the group that it sends to, or unicastIndex
	key    *key
	aead   cipher.AEAD
	newest int64  // the latest time that a packet of it stated, or what the clock was then if that was later
	next   uint64 // above all its counters that have come by any leg
	time   uint32 // that the packet before next stated
	heard  int64  // when one came, in seconds of opener.elapsed
	came   [transport.MaxLegs]*window
	// refused is why none of its packets is taken just now: its key is not valid; otherwise
	// taken. What has come of it is remembered nevertheless: the key may come back.
	refused verdict
}

// on returns what has come of the sender by a leg.
func (k *known) on(leg uint8) *window {
	leg %= transport.MaxLegs
	if k.came[leg] == nil {
		k.came[leg] = new(window)
	}
	return k.came[leg]
}

// heldBack reports whether somebody has kept a packet for a while: a later one came, which was sent
// by more than skew after it. Both times are of the sender's clock. One that was set forward does the
// same to what is under way; it is lost as other packets are.
func (k *known) heldBack(h header, skew int64) bool {
	return uint64(h.counter()) < k.next && int64(int32(k.time-h.time())) > skew
}

// senders are the senders that are known. What is known of one is kept as long as its packets
// would be taken for new ones otherwise: so that nothing which was delivered can be played
// back. Only a packet that verifies makes a sender known, and only its age makes it
// forgotten: no flood does either.
type senders struct {
	all   map[sender]*known
	last  *known        // the one of the last packet
	of    map[KeyID]int // how many of each key there are
	most  int           // of one key: who has an old one cannot fill the place of those who have the new one
	skew  int64
	sweep int64 // when to look for some to forget, in seconds of opener.elapsed
	// forgotten is the latest time that a packet of a forgotten sender stated: what states no
	// later one may be a packet that was taken, however this host's clock was set since.
	forgotten int64
}

func newSenders(most int, skew int64) senders {
	return senders{all: make(map[sender]*known), of: make(map[KeyID]int), most: most, skew: skew}
}

// find returns the sender of that name, or nil.
func (s *senders) find(name []byte) *known {
	if s.last != nil && [senderLen]byte(name) == s.last.name {
		return s.last
	}
	k := s.all[sender(name)]
	if k != nil {
		s.last = k
	}
	return k
}

// room reports whether one more of that key may become known. It forgets who has not been heard, and
// stated no time, for as long as clocks may differ: by the clock alone one that was set
// would do it.
func (s *senders) room(id KeyID, now, elapsed int64) bool {
	if len(s.all) >= sweepFrom && elapsed >= s.sweep {
		s.sweep = elapsed + sweepEvery
		for name, k := range s.all {
			if s.skew > 0 && now > k.newest+s.skew && elapsed > k.heard+s.skew {
				delete(s.all, name)
				s.of[k.key.ID]--
				s.forgotten = max(s.forgotten, k.newest)
			}
		}
		s.last = nil
	}
	return s.of[id] < s.most
}

const (
	sweepFrom  = 64
	sweepEvery = 10 // seconds
)

func (s *senders) add(k *known) {
	s.all[k.name] = k
	s.of[k.key.ID]++
	s.last = k
}

// use refuses the senders whose keys are not valid, and takes those whose keys are again.
func (s *senders) use(set *Keyset, now int64) {
	for _, k := range s.all {
		k.refused = unknownKey
		if set == nil {
			continue
		}
		switch x, there := set.opening(k.key.ID, now, s.skew); {
		case x != nil && x.Secret == k.key.Secret:
			k.key, k.refused = x, taken
		case x == nil && there:
			k.refused = expiredKey
		}
	}
}
