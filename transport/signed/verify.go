package signed

import (
	"crypto/ed25519"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Verdict is the result for a packet of a publisher.
type Verdict uint8

// The verdicts but Taken are described at stats.Sign, in the order in which they are found.
const (
	Taken Verdict = iota
	Unsigned
	Malformed
	Untrusted
	Stale
	Replayed
	Forged
	Deferred
	NumVerdicts
)

// Count adds packets with this verdict to the statistics.
func (v Verdict) Count(s *stats.Sign, packets uint64) {
	switch v {
	case Unsigned:
		s.Unsigned += packets
	case Malformed:
		s.Malformed += packets
	case Untrusted:
		s.Untrusted += packets
	case Stale:
		s.Stale += packets
	case Replayed:
		s.Replayed += packets
	case Forged:
		s.Forged += packets
	case Deferred:
		s.Deferred += packets
	}
}

// Skew is how far apart the clocks of two hosts may be, and how long packets may be under way.
const Skew = 5 * time.Minute

// Verifier verifies the packets of publishers (docs/protocol §29.6). The cheap checks come first:
//
//	signed? ─► key trusted? ─► time? ─► train too old? ─► train verified before? ── yes ─► came? ─► hashes
//	                                                              └ no ─► may it cost? ─► hashes, signature
//
// It belongs to one goroutine.
type Verifier struct {
	trust   Provider
	set     *Trust
	now     time.Time
	at      int64         // now, in seconds since 1970
	since   int64         // when packets may have come at the earliest, likewise
	saved   time.Duration // what budgets of what verifies save up: as much as came while nothing was read
	streams streams
	fails   budget // that do not verify, of all streams that are known
	first   budget // likewise, of those that are not
	work    budget // that verify, of all keys, beyond their own
	*hasher
	text statement
}

// NewVerifier returns a Verifier with that trust.
func NewVerifier(trust Provider) *Verifier {
	return &Verifier{trust: trust, streams: newStreams(maxStreams), hasher: newHasher()}
}

// Begin is called before packets are verified at now that may have lain unread for that long. It reports whether others
// are trusted than before.
func (v *Verifier) Begin(now time.Time, unread time.Duration) (changed bool) {
	v.now, v.at = now, now.Unix()
	v.since, v.saved = now.Add(-unread).Unix(), max(atOnce, unread)
	v.fails.fill(now, failsPerSecond, atOnce)
	v.first.fill(now, strangerFails, atOnce)
	v.work.fill(now, workPerSecond, v.saved)
	set := v.trust.Trust()
	if changed = set != v.set; changed {
		v.set = set
		v.streams.use(set)
	}
	return changed
}

// Streams is how many streams are remembered.
func (v *Verifier) Streams() int { return len(v.streams.all) }

// Check checks a packet of a publisher that came by a leg. key is the key that it names.
func (v *Verifier) Check(b []byte, leg uint8) (key KeyID, verdict Verdict) {
	s, err := wire.ParseSigned(b)
	switch err {
	case nil:
	case wire.ErrForeign:
		return 0, Unsigned
	default:
		return 0, Malformed
	}
	name := streamOf(s.Packet)
	key = IDOfPublisher(name.publisher)
	st := v.streams.find(name)
	by := v.set.find(key)
	if by == nil {
		return key, Untrusted
	}
	// Modulo 2^32, which 2106 passes.
	if int64(int32(s.Time-uint32(v.at))) > skewSeconds || int64(int32(s.Time-uint32(v.since))) < -skewSeconds {
		return key, Stale
	}
	if st != nil {
		t, old := st.find(s.Counter)
		switch {
		case old:
			return key, Replayed
		case t != nil:
			switch {
			case !t.begins(&s):
				return key, Forged
			case t.has(s.Node, leg):
				return key, Replayed
			case !v.proves(t, st.tree(s.Counter), &s):
				return key, Forged
			}
			t.came(s.Node, leg)
			return key, Taken
		}
	}
	return key, v.checkTrain(by, name, st, &s, leg)
}

const skewSeconds = int64(Skew / time.Second)

// proves reports whether a packet belongs to a verified train. known is its tree, if it is remembered.
func (v *Verifier) proves(t *signedTrain, known *knownTree, s *wire.Signed) bool {
	leaf := v.leaf(s.Salt, s.Node, s.Packet)
	if known == nil {
		return climb(s, leaf) == t.root
	}
	return known.take(s, leaf)
}

// checkTrain judges a packet of a train that was not verified yet, of stream st, which is nil if none of it has.
func (v *Verifier) checkTrain(by *trusted, name streamName, st *stream, s *wire.Signed, leg uint8) Verdict {
	key := v.streams.account(IDOfPublisher(name.publisher))
	key.work.fill(v.now, keyWorkPerSecond, v.saved)
	if !v.affords(st) || !key.work.some() && !v.work.some() || st == nil && !v.streams.room(key, v.since) {
		return Deferred
	}
	leaf := v.leaf(s.Salt, s.Node, s.Packet)
	root := climb(s, leaf)
	v.text.set(s.Depth(), s.Time, s.Counter, s.Salt, &root)
	if !ed25519.Verify(by.key, v.text[:], s.Signature) {
		v.failed(st)
		return Forged
	}
	if key.work.some() {
		key.work.take()
	} else {
		v.work.take()
	}
	if st == nil {
		st = v.streams.add(name, by)
	}
	st.heard = v.at
	st.add(s, root, leaf).came(s.Node, leg)
	return Taken
}

// affords reports whether a signature of stream st, which is nil if unknown, may be checked though it
// may not verify. In a flood in other names, a stream without recent failures may.
func (v *Verifier) affords(st *stream) bool {
	if st == nil {
		return v.first.some()
	}
	st.fails.fill(v.now, streamFails, atOnce)
	return st.fails.some() && (v.fails.some() || v.now.Sub(st.failed) >= cleanAfter)
}

// failed records that one did not verify.
func (v *Verifier) failed(st *stream) {
	if st == nil {
		v.first.take()
		return
	}
	st.failed = v.now
	st.fails.take()
	v.fails.take()
}

// climb is the root of the tree that a packet states.
func climb(s *wire.Signed, n node) node {
	path := s.Path
	for number := s.Node; number > 1; number >>= 1 {
		sibling := node(path)
		n = above(s.Salt, number, &n, &sibling)
		path = path[wire.SignedNodeLen:]
	}
	return n
}

// streamName identifies the stream in which a train counter counts, by the header of its packets.
type streamName struct {
	publisher, epoch uint64
	tag              uint32
}

// streamOf reads it from a packet, which has a header.
func streamOf(packet []byte) (n streamName) {
	n.publisher, n.epoch, n.tag = wire.Stream(packet)
	return n
}

// budget bounds how many signatures are looked at: each costs some 50 µs.
type budget struct {
	left float64
	at   time.Time
}

const (
	// failsPerSecond takes, with strangerFails, a third of a core.
	failsPerSecond = 4500
	// streamFails is how many failures may be in the name of one stream, and strangerFails in the names
	// of all unknown ones together.
	streamFails   = 3000
	strangerFails = 1500
	// cleanAfter is how long after the last failure a stream has its part whatever is done in other names.
	cleanAfter = time.Second
	// keyWorkPerSecond is how many signatures of each key are checked regardless of other keys, and
	// workPerSecond how many more of all keys together. A Fanfare publisher sends 10,000 at most.
	keyWorkPerSecond = 3000
	workPerSecond    = 9000
	// atOnce is for how long it may be saved up by a receiver that reads.
	atOnce = 50 * time.Millisecond
)

func (b *budget) fill(now time.Time, perSecond float64, saved time.Duration) {
	limit := perSecond * saved.Seconds()
	if b.at.IsZero() {
		b.left = limit
	} else if d := now.Sub(b.at); d > 0 {
		b.left = min(limit, b.left+d.Seconds()*perSecond)
	}
	b.at = now
}

func (b *budget) some() bool { return b.left >= 1 }
func (b *budget) take()      { b.left-- }
