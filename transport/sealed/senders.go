package sealed

import (
	"crypto/cipher"
)

// known is one sender of which a packet was taken.
type known struct {
	name  sender
	index uint32 // of the group that it sends to, or unicastIndex
	key   *key
	aead  cipher.AEAD
	// refused is why none of its packets is taken just now: its key is not valid; otherwise
	// taken. What has come of it is remembered nevertheless: the key may come back.
	refused verdict
	who     who
	history
}

// who is charged for what is remembered: the host that it came from, or where senders prove who they are the one
// with that signing key.
type who struct {
	host   string
	signer uint32
}

// senders are the senders that are known. What is known of one is kept as long as its packets
// would be taken for new ones otherwise: so that nothing which was delivered can be played
// back. Only a packet that is taken makes a sender known, and only its age makes it
// forgotten: no flood does either. Who has the key can make up as many as he likes: there is a share for everybody.
type senders struct {
	all    map[sender]*known
	last   *known        // the one of the last packet
	of     map[KeyID]int // histories of each key
	share  map[share]int // and of each who has some
	proves bool          // replays are found elsewhere
	most   int           // of one key: who has an old one cannot fill the place of those who have the new one
	skew   int64
	sweep  int64 // when to look for some to forget, in seconds of opener.elapsed
	// forgotten has the latest time that each of those stated that are not known any more: what states a later one is new, however this
	// host's clock was set since.
	forgotten lately[int64]
}

type share struct {
	key KeyID
	who who
}

func newSenders(most int, skew int64, proves bool) senders {
	return senders{proves: proves, forgotten: newLately[int64](maxForgotten), all: make(map[sender]*known), of: make(map[KeyID]int), share: make(map[share]int), most: most, skew: skew}
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

// room reports whether one more of that key may become known of x: it may as long as x leaves as much room as it
// takes, so that of n that take all they can get each has one part in n + 1.
func (s *senders) room(id KeyID, x who, elapsed int64) bool {
	if len(s.all) >= min(sweepFrom, s.most/2) && elapsed >= s.sweep {
		s.sweep = elapsed + sweepEvery
		for _, k := range s.all {
			if s.old(k, elapsed) {
				s.forget(k)
			}
		}
		s.last = nil
	}
	return s.share[share{id, x}] < s.most-s.of[id]
}

// old reports whether a sender can be forgotten: who has not been heard for so long, by a clock that nobody sets, that all that was taken of it is too old to be
// taken, as long as this host's clock is not set back (forgotten). Where it is known elsewhere what came before, a shorter time does.
func (s *senders) old(k *known, elapsed int64) bool {
	if s.proves {
		return elapsed > k.heard+provenFor
	}
	return elapsed > k.heard+2*s.skew
}

func (s *senders) forget(k *known) {
	delete(s.all, k.name)
	if !s.proves {
		s.forgotten.add(k.name, k.newest)
	}
	s.of[k.key.ID]--
	if y := (share{k.key.ID, k.who}); s.share[y] > 1 {
		s.share[y]--
	} else {
		delete(s.share, y)
	}
}

const (
	sweepFrom  = 64
	sweepEvery = 10 // seconds
	provenFor  = 60 // seconds, of a sender whose packets are proven
	// maxForgotten bounds those of which the name is remembered: some 200 bytes each. What older ones sent can be played back where this host's clock is set
	// back to when they sent it.
	maxForgotten = 65_536
)

func (s *senders) add(k *known, x who) {
	k.who = x
	if last, was := s.forgotten.get(k.name); was {
		k.from, k.newest = last+1, last
		s.forgotten.drop(k.name)
	}
	s.all[k.name] = k
	s.of[k.key.ID]++
	s.share[share{k.key.ID, x}]++
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
