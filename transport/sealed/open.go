package sealed

import (
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// verdict is what becomes of a received packet.
type verdict uint8

const (
	taken    verdict = iota // it verifies, and lies decrypted where it was
	foreign                 // the others are described at transport.SealStats
	unsealed                // SealStats.Open
	otherVersion
	unknownKey
	expiredKey
	replayed
	stale
	deferred
	forged
	numVerdicts
)

// opener opens packets, of one direction: those of groups, or replies. It checks what is cheap
// first (docs/protocol.md §27.6):
//
//	length, magic, version ─► key ─► sender known? ── yes ─► came before? ─► verifies? ─► taken
//	                                      └ no ─► its mark ─► its time ─► not too many? ─┘
//
// Of a sender that is not known the cipher has to be derived, but of candidates.
//
// It belongs to one goroutine at a time.
type opener struct {
	skew       int64
	set        *Keyset
	steady     period // when no key begins or ends to be taken
	now        int64  // of the packets that are being opened, in seconds since 1970
	began      time.Time
	elapsed    int64 // seconds since began, by a clock that nobody sets
	senders    senders
	candidates candidates
	trials     trials
	nonce      [nonceLen]byte
	marker     marker
}

func newOpener(cfg *Config) *opener {
	skew := int64(cfg.Skew / time.Second)
	return &opener{skew: skew, senders: newSenders(cfg.MaxSenders, skew)}
}

// begin is called before packets are opened at now.
func (o *opener) begin(set *Keyset, now time.Time) {
	o.now = now.Unix()
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

// open judges packet p of a group, or of unicastIndex, that came by a leg. If it is taken,
// its content is decrypted in place. Any other packet may be spoiled.
func (o *opener) open(p []byte, index uint32, leg uint8) verdict {
	if len(p) <= Overhead || p[0] != magic0 || p[1] != magic1 {
		if len(p) >= 2 && p[0] == magic0 && p[1] == openMagic1 {
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
	if o.set == nil {
		return unknownKey
	}
	k, there := o.set.opening(KeyID(h.key()), o.now, o.skew)
	switch {
	case !there:
		return unknownKey
	case k == nil:
		return expiredKey
	case o.marker.mark(k, p[atSender:atMark], index) != [markLen]byte(p[atMark:]):
		return forged
	case o.off(h.time()) != 0 || o.skew > 0 && o.stated(h) <= o.senders.forgotten:
		return stale
	case !o.senders.room(k.ID, o.now, o.elapsed):
		return deferred
	}
	return o.openNew(k, p, index, leg)
}

// stated is the time that a packet states, in seconds since 1970: of those that its 32 bits may
// mean the one that is nearest to now.
func (o *opener) stated(h header) int64 { return o.now + int64(int32(h.time()-uint32(o.now))) }

// off is by how many seconds a time is too far from now: ahead of it, or behind if it is negative.
func (o *opener) off(stated uint32) int64 {
	d := int64(int32(stated - uint32(o.now)))
	if o.skew <= 0 || -o.skew <= d && d <= o.skew {
		return 0
	}
	return d
}

// offOf is by how much the clock of a packet's sender is ahead, where that is why it was not taken.
func (o *opener) offOf(v verdict, p []byte) time.Duration {
	if v != stale {
		return 0
	}
	return time.Duration(o.off(header(p).time())) * time.Second
}

func (o *opener) openKnown(k *known, p []byte, index uint32, leg uint8) verdict {
	h := header(p)
	if k.index != index || uint32(k.key.ID) != h.key() {
		return forged
	}
	if k.refused != taken {
		return k.refused
	}
	w, c := k.on(leg), uint64(h.counter())
	if w.seen(c) || o.skew > 0 && k.heldBack(h, o.skew) {
		return replayed
	}
	if !o.verify(k, p) {
		return forged
	}
	w.add(c)
	o.heard(k, h)
	return taken
}

// openNew opens the first packet of a sender.
func (o *opener) openNew(use *key, p []byte, index uint32, leg uint8) verdict {
	h := header(p)
	k := o.candidates.all[h.sender()]
	candidate := k != nil
	if !candidate {
		if !o.trials.take() {
			return deferred
		}
		aead, err := use.derive(p[atSender:atMark], index)
		if err != nil {
			return forged
		}
		k = &known{name: h.sender(), index: index, key: use, aead: aead}
	}
	switch verified := k.index == index && k.key == use && o.verify(k, p); {
	case !verified && !candidate:
		o.candidates.add(k)
		return forged
	case !verified:
		return forged
	case candidate:
		delete(o.candidates.all, k.name)
	}
	o.senders.add(k)
	k.on(leg).add(uint64(h.counter()))
	o.heard(k, h)
	return taken
}

// heard notes that a packet of the sender was taken. A clock that is far ahead does not make
// it remembered for longer than one that is right.
func (o *opener) heard(k *known, h header) {
	stated := o.stated(h)
	if o.skew > 0 {
		stated = min(stated, o.now+o.skew)
	}
	k.newest, k.heard = max(k.newest, stated), o.elapsed
	if c := uint64(h.counter()); c >= k.next {
		k.next, k.time = c+1, h.time()
	}
}

// verify decrypts a packet in place if it is what its sender has sealed.
func (o *opener) verify(k *known, p []byte) bool {
	header(p).nonce(&o.nonce)
	sealed := p[headerLen:]
	_, err := k.aead.Open(sealed[:0], o.nonce[:], sealed, p[:headerLen])
	return err == nil
}

// trials bounds how many senders that are not known are looked at, and are no candidates: each
// costs the derivation of a key.
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

// count adds a verdict to what is counted.
func (v verdict) count(s *transport.SealStats, n uint64) {
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
