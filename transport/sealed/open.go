package sealed

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// verdict is the result for a received packet.
type verdict uint8

const (
	accepted verdict = iota // accepted, and decrypted in place
	foreign                 // for this and the following see the counters in stats.Seal
	unsealed                // counted in stats.Seal.Open
	otherVersion
	unknownKey
	expiredKey
	replayed
	stale
	deferred
	forged
	numVerdicts
)

// opener opens packets of one kind: of groups, or replies. Cheap checks come first (docs/protocol §27.6):
//
//	length, magic, version ─► sender known? ── yes ─► its key ─► its time ─► came before? ─► verifies? ─► taken
//	                               └ no ─► its key ─► its mark ─► its time ─► forgotten? ─► not too many? ─► verifies? ─► room for it? ─┘
//
// For an unknown sender the cipher has to be derived, unless it is a candidate. If the layer above verifies the
// publisher of a packet and recognizes repeats (proves), counters are not checked, and only that proof makes senders
// known: proven.
//
// It belongs to one goroutine at a time.
type opener struct {
	skew    int64
	proves  bool
	from    func() string // the address of the packet that is being opened; may be nil
	set     *Keyset
	steady  period // in which no key becomes valid or invalid
	now     int64  // time of opening, in seconds since 1970
	unread  int64  // seconds for which packets may have waited unread
	began   time.Time
	elapsed int64 // seconds since began, by the monotonic clock
	senders senders
	// candidates are senders with a valid mark of which no packet was accepted. An attacker can replay a mark with other
	// content: the cipher of each mark is kept, so a flood costs one key derivation per mark rather than per packet, and
	// leaves trials for new senders. A key holder that does not prove its identity where that is required remains a
	// candidate. Beyond maxCandidates marks, in one group and with one key, the oldest are derived again.
	candidates latest[*known]
	trials     trials
	nonce      [nonceLen]byte
	marker     marker
}

func newOpener(cfg *Config) *opener {
	skew := int64(cfg.Skew / time.Second)
	return &opener{skew: skew, proves: cfg.Proven, candidates: newLatest[*known](maxCandidates),
		senders: newSenders(cfg.MaxSenders, skew, cfg.Proven)}
}

// begin must be called before opening packets at time now that may have waited unread for up to unread.
func (o *opener) begin(set *Keyset, now time.Time, unread time.Duration) {
	o.now, o.unread = now.Unix(), now.Unix()-now.Add(-unread).Unix()
	if o.began.IsZero() {
		o.began = now
	}
	o.elapsed = max(o.elapsed, int64(now.Sub(o.began)/time.Second))
	if set != o.set || !o.steady.has(o.now) {
		o.set = set
		o.steady = set.steady(o.now, o.skew)
		o.senders.use(set, o.now)
		o.candidates.clear()
	}
	o.trials.fill(now)
}

// open checks packet p of a group, or of unicastIndex, that arrived on a leg. If the verdict is taken, its content is
// decrypted in place; otherwise p may be overwritten.
func (o *opener) open(p []byte, index uint32, leg uint8) verdict {
	if len(p) <= Overhead || p[0] != magic0 || p[1] != magic1 {
		if len(p) >= 2 && p[0] == magic0 && (p[1] == openMagic1 || p[1] == signedMagic1) {
			return unsealed
		}
		return foreign
	}
	if p[2] != version {
		return otherVersion
	}
	h := header(p)
	if k := o.senders.find(p[atSender : atSender+senderLen]); k != nil {
		return o.openKnown(k, p, index, leg)
	}
	k, v := o.keyOf(h)
	switch {
	case v != accepted:
		return v
	case o.marker.mark(k, p[atSender:atMark], index) != [markLen]byte(p[atMark:]):
		return forged
	case o.off(h) != 0:
		return stale
	}
	if last, was := o.senders.forgotten.get(h.sender()); was && o.stated(h) <= last {
		return replayed
	}
	return o.openNew(k, p, index, leg)
}

// keyOf is the key named in a packet, or the verdict if it cannot be used.
func (o *opener) keyOf(h header) (*key, verdict) {
	if o.set == nil {
		return nil, unknownKey
	}
	switch k, there := o.set.opening(KeyID(h.key()), o.now, o.skew); {
	case !there:
		return nil, unknownKey
	case k == nil:
		return nil, expiredKey
	default:
		return k, accepted
	}
}

// stated is the time in a packet, in seconds since 1970: its 32 bits, extended to the time nearest to now.
func (o *opener) stated(h header) int64 { return o.now + int64(int32(h.time()-uint32(o.now))) }

// arrived is the contents of a packet's header, and its arrival time.
func (o *opener) arrived(h header) arrival {
	return arrival{counter: uint64(h.counter()), stated: o.stated(h), at: o.elapsed}
}

// off is by how many seconds the time in a packet is outside of the time in which it may have arrived: positive ahead,
// negative behind.
func (o *opener) off(h header) int64 {
	d := o.stated(h) - o.now
	if d < 0 {
		d = min(0, d+o.unread)
	}
	if -o.skew <= d && d <= o.skew {
		return 0
	}
	return d
}

// old is the earliest arrival, in opener.elapsed, of the packets being opened.
func (o *opener) old() int64 { return o.elapsed - o.unread }

// offOf is by how much the clock of a packet's sender is ahead, if verdict v is because of that.
func (o *opener) offOf(v verdict, p []byte) time.Duration {
	if v != stale {
		return 0
	}
	return time.Duration(o.off(header(p))) * time.Second
}

func (o *opener) openKnown(k *known, p []byte, index uint32, leg uint8) verdict {
	h := header(p)
	if uint32(k.key.ID) != h.key() {
		if _, v := o.keyOf(h); v != accepted { // may be forged, but notices limits reports of unknown ids
			return v
		}
		return forged
	}
	if k.index != index {
		return forged
	}
	if k.refused != accepted {
		return k.refused
	}
	if o.off(h) != 0 {
		return stale
	}
	if !o.proves && k.seen(leg, o.arrived(h)) {
		return replayed
	}
	if !o.verify(k, p) {
		return forged
	}
	if !o.proves {
		k.record(leg, o.arrived(h))
	}
	return accepted
}

// openNew opens a packet of an unknown sender.
func (o *opener) openNew(use *key, p []byte, index uint32, leg uint8) verdict {
	h := header(p)
	k, _ := o.candidates.get(h.sender())
	if k == nil {
		if !o.trials.take() {
			return deferred
		}
		var err error
		if k, err = derived(use, h, index); err != nil {
			return forged
		}
		o.candidates.add(k.name, k)
	}
	switch {
	case k.index != index || k.key != use || !o.verify(k, p):
		return forged
	case o.proves:
		return accepted
	}
	x := owner{host: o.host()}
	if !o.senders.room(use.ID, x, o.old()) {
		return deferred
	}
	o.candidates.drop(k.name)
	o.senders.add(k, x)
	k.record(leg, o.arrived(h))
	return accepted
}

// derived derives the cipher of a packet's sender.
func derived(use *key, h header, index uint32) (*known, error) {
	aead, err := use.derive(h[atSender:atMark], index)
	return &known{name: h.sender(), index: index, key: use, aead: aead}, err
}

// host is the owner of the packet being opened: the host of its address, if the fabric has hosts.
func (o *opener) host() string {
	if o.from == nil {
		return ""
	}
	return hostOf(o.from())
}

// verify authenticates a packet and decrypts it in place.
func (o *opener) verify(k *known, p []byte) bool {
	header(p).nonce(&o.nonce)
	sealed := p[headerLen:]
	_, err := k.aead.Open(sealed[:0], o.nonce[:], sealed, p[:headerLen])
	return err == nil
}

// maxCandidates bounds opener.candidates: about 1 KiB each.
const maxCandidates = 1024

// trials limits the checks of unknown senders that are not candidates: each costs a key derivation.
type trials struct {
	left float64
	at   time.Time
}

const (
	trialsPerSecond = 20_000
	trialsAtOnce    = 5_000
)

func (t *trials) fill(now time.Time) {
	if t.at.IsZero() {
		t.left = trialsAtOnce
	} else if d := now.Sub(t.at); d > 0 {
		t.left = min(trialsAtOnce, t.left+d.Seconds()*trialsPerSecond)
	}
	t.at = now
}

func (t *trials) take() bool {
	if t.left < 1 {
		return false
	}
	t.left--
	return true
}

// count adds a verdict to the statistics.
func (v verdict) count(s *stats.Seal, n uint64) {
	switch v {
	case foreign:
		s.Foreign += n
	case unsealed:
		s.Open += n
	case otherVersion:
		s.Version += n
	case unknownKey, expiredKey:
		s.UnknownKey += n
	case replayed:
		s.Replayed += n
	case stale:
		s.Stale += n
	case deferred:
		s.Deferred += n
	case forged:
		s.Forged += n
	}
}
