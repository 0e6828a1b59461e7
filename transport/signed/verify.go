package signed

import (
	"crypto/ed25519"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Verdict is the result of checking a packet or a reply.
type Verdict uint8

// Taken: accepted. The other verdicts are described at stats.Sign, in the order of the checks.
const (
	Accepted Verdict = iota
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

// Skew is the maximum difference between the clocks of two hosts, including the delay of packets.
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
	since   int64         // earliest time of arrival of the packets, in seconds since 1970
	saved   time.Duration // time for which budgets of verified packets fill up: that in which nothing was read
	streams streams
	fails   budget // checks that fail, of all known streams
	first   budget // checks that fail, of unknown streams
	work    budget // checks that succeed, of all keys, beyond the budget of each key
	*hasher
	text statement
}

// NewVerifier returns a Verifier with a Provider.
func NewVerifier(trust Provider) *Verifier {
	return &Verifier{trust: trust, streams: newStreams(maxStreams), hasher: newHasher()}
}

// Begin must be called before packets are checked at time now that may have waited unread for up to unread. It reports
// whether the trust has changed.
func (v *Verifier) Begin(now time.Time, unread time.Duration) (changed bool) {
	v.now, v.at = now, now.Unix()
	v.since, v.saved = now.Add(-unread).Unix(), max(atOnce, unread)
	v.fails.fill(now, failsPerSecond, atOnce)
	v.first.fill(now, unknownFails, atOnce)
	v.work.fill(now, workPerSecond, v.saved)
	set := v.trust.Trust()
	if changed = set != v.set; changed {
		v.set = set
		v.streams.use(set)
	}
	return changed
}

// Streams is the number of remembered streams.
func (v *Verifier) Streams() int { return len(v.streams.all) }

// Check checks a packet that arrived on a leg. key is the id of the key in the packet.
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
	key = idOfPublisher(name.Publisher)
	st := v.streams.find(name)
	by := v.set.find(key)
	if by == nil {
		return key, Untrusted
	}
	// Modulo 2^32, because times wrap around in 2106.
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
			t.setArrived(s.Node, leg)
			return key, Accepted
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
	return known.verify(s, leaf)
}

// checkTrain checks a packet of a train that is not verified yet. st is its stream, nil if unknown.
func (v *Verifier) checkTrain(by *trusted, name streamName, st *stream, s *wire.Signed, leg uint8) Verdict {
	key := v.streams.account(idOfPublisher(name.Publisher))
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
	st.lastArrival = v.at
	st.add(s, root, leaf).setArrived(s.Node, leg)
	return Accepted
}

// affords reports whether a signature of stream st, nil if unknown, may be checked although it may fail. During a flood
// with other names a stream without recent failures has its own budget.
func (v *Verifier) affords(st *stream) bool {
	if st == nil {
		return v.first.some()
	}
	st.fails.fill(v.now, streamFails, atOnce)
	return st.fails.some() && (v.fails.some() || v.now.Sub(st.failed) >= cleanAfter)
}

// failed records that a signature of stream st did not verify.
func (v *Verifier) failed(st *stream) {
	if st == nil {
		v.first.take()
		return
	}
	st.failed = v.now
	st.fails.take()
	v.fails.take()
}

// climb computes the root of the tree from a packet's leaf and path.
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
	events.Instance
	tag uint32
}

// streamOf reads the stream's name from the header of a packet.
func streamOf(packet []byte) (n streamName) {
	n.Instance, n.tag = wire.Stream(packet)
	return n
}

// budget limits the number of signatures that are checked: each costs about 50 µs.
type budget struct {
	left float64
	at   time.Time
}

const (
	// failsPerSecond and unknownFails together use at most a third of a core.
	failsPerSecond = 4500
	// streamFails is the maximum number of failed verifications a second of packets of one known stream, unknownFails
	// that of packets of all unknown streams together.
	streamFails  = 3000
	unknownFails = 1500
	// cleanAfter is the time since its last failure after which a stream has a budget that other streams cannot use up.
	cleanAfter = time.Second
	// keyWorkPerSecond is the number of signatures of each key that are checked regardless of other keys, workPerSecond
	// the number in addition for all keys together. A Fanfare publisher sends at most 10,000 a second.
	keyWorkPerSecond = 3000
	workPerSecond    = 9000
	// atOnce is the time for which a budget may fill up while the receiver reads.
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
