package sealed

import (
	"crypto/cipher"
)

// known is one sender of which a packet was accepted.
type known struct {
	name  sender
	index uint32 // of the group that it sends to, or unicastIndex
	key   *key
	aead  cipher.AEAD
	// refused is the verdict for all of its packets while its key is not valid; otherwise taken. Its history is kept,
	// because the key may become valid again.
	refused verdict
	owner   owner
	history
}

// owner owns a share of the known senders: a host or, if senders prove their identity, a signing key.
type owner struct {
	host   string
	signer uint32
}

// senders are the known senders. A sender is remembered as long as its packets would otherwise be accepted as new, so
// that no delivered packet can be replayed. Only an accepted packet makes a sender known, and only age makes it
// forgotten, so a flood causes neither. A key holder can invent any number of senders: therefore each owner has a
// share.
type senders struct {
	all    map[sender]*known
	last   *known        // the sender of the last packet
	of     map[KeyID]int // number of senders of each key
	share  map[share]int // number of senders of each key and owner
	proves bool          // another layer detects replays
	limit  int           // for each key, so that holders of an old key cannot use up the room of the new one
	skew   int64
	sweep  int64 // time of the next sweep, in seconds of opener.elapsed
	// forgotten has the latest packet time of each forgotten sender: a packet with a later time is new, however this
	// host's clock was set since.
	forgotten latest[int64]
}

type share struct {
	key   KeyID
	owner owner
}

func newSenders(limit int, skew int64, proves bool) senders {
	return senders{proves: proves, forgotten: newLatest[int64](maxForgotten), all: make(map[sender]*known),
		of: make(map[KeyID]int), share: make(map[share]int), limit: limit, skew: skew}
}

// find returns the sender with a name, or nil.
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

// room reports whether one more sender of a key and owner x may become known: the free room must be at least what x
// uses, so that of n owners that use all they can each gets one part in n + 1.
func (s *senders) room(id KeyID, x owner, elapsed int64) bool {
	if len(s.all) >= min(sweepFrom, s.limit/2) && elapsed >= s.sweep {
		s.sweep = elapsed + sweepEvery
		for _, k := range s.all {
			if s.old(k, elapsed) {
				s.forget(k)
			}
		}
		s.last = nil
	}
	return s.share[share{id, x}] < s.limit-s.of[id]
}

// old reports whether a sender can be forgotten: by the monotonic clock it has been silent for so long that all of its
// accepted packets are now too old to be accepted again, unless this host's clock is set back (forgotten). If another
// layer detects repeats a shorter time is enough.
func (s *senders) old(k *known, elapsed int64) bool {
	if s.proves {
		return elapsed > k.lastArrival+provenFor
	}
	return elapsed > k.lastArrival+2*s.skew
}

func (s *senders) forget(k *known) {
	delete(s.all, k.name)
	if !s.proves {
		s.forgotten.add(k.name, k.newest)
	}
	s.of[k.key.ID]--
	if y := (share{k.key.ID, k.owner}); s.share[y] > 1 {
		s.share[y]--
	} else {
		delete(s.share, y)
	}
}

const (
	sweepFrom  = 64
	sweepEvery = 10 // seconds
	provenFor  = 60 // seconds, for a sender with proven packets
	// maxForgotten bounds the remembered names of forgotten senders: about 200 bytes each. Packets of older ones can be
	// replayed if this host's clock is set back to when they were sent.
	maxForgotten = 65_536
)

func (s *senders) add(k *known, x owner) {
	k.owner = x
	if last, was := s.forgotten.get(k.name); was {
		k.from, k.newest = last+1, last
		s.forgotten.drop(k.name)
	}
	s.all[k.name] = k
	s.of[k.key.ID]++
	s.share[share{k.key.ID, x}]++
	s.last = k
}

// use applies a set of keys: it refuses senders with invalid keys, and accepts those with keys that are valid again.
func (s *senders) use(set *Keyset, now int64) {
	for _, k := range s.all {
		k.refused = unknownKey
		if set == nil {
			continue
		}
		switch x, there := set.opening(k.key.ID, now, s.skew); {
		case x != nil && x.Secret == k.key.Secret:
			k.key, k.refused = x, accepted
		case x == nil && there:
			k.refused = expiredKey
		}
	}
}
