package sealed

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
)

// The verdict of each kind of packet. A refused packet makes no sender known. docs/protocol §27.6.
func TestOpen(t *testing.T) {
	now := time.Now()
	set := testSet(t, 1)
	seal := func(set *Keyset, index uint32, at time.Time) []byte {
		s := newSealer(index, rand.Reader)
		if err := s.begin(set, at, 1); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 100+Overhead)
		s.seal(p, bytes.Repeat([]byte{7}, 100))
		return p
	}
	change := func(at int) func() []byte {
		return func() []byte {
			p := seal(set, 3, now)
			p[at] ^= 1
			return p
		}
	}
	otherSecret := func() *Keyset {
		s, err := NewKeyset([]Key{{ID: 1, Secret: [32]byte{99}}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	over := func() *Keyset {
		s, err := NewKeyset([]Key{{ID: 1, Secret: [32]byte{1, 0, 7}, NotAfter: now.Add(-time.Minute)}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name   string
		packet func() []byte
		with   *Keyset // keys of the receiver
		want   verdict
	}{
		{"good", func() []byte { return seal(set, 3, now) }, set, accepted},
		{"empty", func() []byte { return nil }, set, foreign},
		{"only a header and a tag", func() []byte { return seal(set, 3, now)[:Overhead] }, set, foreign},
		{"from another program", func() []byte { return bytes.Repeat([]byte{1}, 100) }, set, foreign},
		{"open", func() []byte { return append([]byte("Ff\x01\x01"), make([]byte, 100)...) }, set, unsealed},
		{"signed", func() []byte { return append([]byte("Fg\x01\x01"), make([]byte, 100)...) }, set, unsealed},
		{"short and open", func() []byte { return []byte("Ff") }, set, unsealed},
		{"another version", func() []byte { p := seal(set, 3, now); p[2] = 9; return p }, set, otherVersion},
		{"an unknown key", func() []byte { return seal(testSet(t, 2), 3, now) }, set, unknownKey},
		{"no keys", func() []byte { return seal(set, 3, now) }, nil, unknownKey},
		{"an expired key", func() []byte { return seal(set, 3, now) }, over(), expiredKey},
		{"another secret", func() []byte { return seal(set, 3, now) }, otherSecret(), forged},
		{"for another group", func() []byte { return seal(set, 4, now) }, set, forged},
		{"a reply", func() []byte { return seal(set, unicastIndex, now) }, set, forged},
		{"old", func() []byte { return seal(set, 3, now.Add(-6*time.Minute)) }, set, stale},
		{"from the future", func() []byte { return seal(set, 3, now.Add(6*time.Minute)) }, set, stale},
		{"not quite old", func() []byte { return seal(set, 3, now.Add(-4*time.Minute)) }, set, accepted},
		{"reserved byte changed", change(3), set, forged},
		{"counter changed", change(atCounter), set, forged},
		{"key changed", change(atKey), set, unknownKey},
		{"time changed", change(atTime), set, forged},
		{"salt changed", change(atSender), set, forged},
		{"mark changed", change(atMark), set, forged},
		{"train changed", change(atTrain), set, forged},
		{"content changed", change(headerLen + 50), set, forged},
		{"tag changed", change(headerLen + 100), set, forged},
		{"cut", func() []byte { p := seal(set, 3, now); return p[:len(p)-1] }, set, forged},
		{"longer", func() []byte { return append(seal(set, 3, now), 0) }, set, forged},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := testOpener(t, c.with)
			p := c.packet()
			if got := o.open(p, 3, 0); got != c.want {
				t.Errorf("verdict %d, want %d", got, c.want)
			}
			if known := len(o.senders.all) > 0; known != (c.want == accepted) {
				t.Errorf("%d senders are known, want some: %v", len(o.senders.all), c.want == accepted)
			}
			if c.want == accepted && !bytes.Equal(p[headerLen:headerLen+100], bytes.Repeat([]byte{7}, 100)) {
				t.Error("it was not decrypted in place")
			}
		})
	}
}

// Packets with any one bit changed, and all truncated packets, are refused, of known and unknown senders. docs/protocol
// §27.6.
func TestEveryBitIsProtected(t *testing.T) {
	set := testSet(t, 1)
	s := newSealer(3, rand.Reader)
	if err := s.begin(set, time.Now(), 1000); err != nil {
		t.Fatal(err)
	}
	good := make([]byte, 30+Overhead)
	s.seal(good, make([]byte, 30))
	for _, known := range []bool{false, true} {
		o := testOpener(t, set)
		if known {
			first := make([]byte, 30+Overhead)
			s.seal(first, make([]byte, 30))
			if v := o.open(first, 3, 0); v != accepted {
				t.Fatalf("verdict %d, want accepted", v)
			}
		}
		for bit := range 8 * len(good) {
			p := bytes.Clone(good)
			p[bit/8] ^= 1 << (bit % 8)
			if o.open(p, 3, 0) == accepted {
				t.Errorf("known %v: accepted with bit %d changed", known, bit)
			}
		}
		for n := range len(good) {
			if o.open(bytes.Clone(good[:n]), 3, 0) == accepted {
				t.Errorf("known %v: accepted with %d of %d bytes", known, n, len(good))
			}
		}
		if v := o.open(bytes.Clone(good), 3, 0); v != accepted {
			t.Errorf("known %v: the valid packet is not accepted afterwards: %d", known, v)
		}
	}
}

// A repeated packet is refused: immediately, later, and out of order. It is accepted once on each leg. A forged packet
// uses up no counter. docs/protocol §27.6.
func TestReplay(t *testing.T) {
	set := testSet(t, 1)
	s, o := newSealer(0, rand.Reader), testOpener(t, set)
	begun := time.Now()
	const n = 3 * windowPackets
	packets := make([][]byte, n)
	for i := range packets {
		if i%1000 == 0 {
			s.begin(set, begun, 1000)
		}
		packets[i] = make([]byte, 1+Overhead)
		s.seal(packets[i], []byte{byte(i)})
	}
	open := func(i int, leg uint8) verdict { return o.open(bytes.Clone(packets[i]), 0, leg) }
	want := func(i int, leg uint8, want verdict) {
		t.Helper()
		if v := open(i, leg); v != want {
			t.Fatalf("packet %d on leg %d: verdict %d, want %d", i, leg, v, want)
		}
	}
	want(5, 0, accepted)
	want(5, 0, replayed)
	want(5, 1, accepted)
	want(5, 1, replayed)
	want(3, 0, accepted)
	want(3, 0, replayed)
	forgery := bytes.Clone(packets[n-1])
	forgery[len(forgery)-1] ^= 1
	if v := o.open(forgery, 0, 0); v != forged {
		t.Fatalf("verdict %d on a forgery, want forged", v)
	}
	want(windowPackets+2, 0, accepted)
	want(4, 0, accepted) // the oldest counter of the window, not received before
	want(2, 0, replayed)
	want(n-1, 0, accepted)
	want(windowPackets+3, 0, replayed) // a counter below the window
	want(n-2, 0, accepted)
	for i := range n {
		if i < windowPackets*2 && open(i, 0) != replayed {
			t.Fatalf("packet %d that is too old is not refused, want replayed", i)
		}
	}
}

// Invented senders use no memory and displace no sender. Known senders are removed only when their packets would be
// refused for their age. docs/protocol §27.6.
func TestSendersAreNotDisplaced(t *testing.T) {
	set := testSet(t, 1)
	cfg := Config{MaxSenders: 100}.withDefaults()
	o := newOpener(&cfg)
	now, hosts := time.Now(), 0
	o.from = func() string { hosts++; return fmt.Sprintf("10.0.0.%d:7", hosts) }
	o.begin(set, now, 0)
	one := func(at time.Time) []byte {
		s := newSealer(0, rand.Reader)
		s.begin(set, at, 1)
		p := make([]byte, 1+Overhead)
		s.seal(p, []byte{1})
		return p
	}
	var first [][]byte
	for range 100 {
		p := one(now)
		first = append(first, bytes.Clone(p))
		if v := o.open(p, 0, 0); v != accepted {
			t.Fatalf("verdict %d, want accepted", v)
		}
	}
	if v := o.open(one(now), 0, 0); v != deferred {
		t.Errorf("one more than the limit: %d", v)
	}
	// During a key rotation, senders with the new key have room in addition to those with the old one.
	both := testSet(t, 1, 2)
	o.begin(both, now, 0)
	set, both = testSet(t, 2), set
	for range 100 {
		if v := o.open(one(now), 0, 0); v != accepted {
			t.Fatalf("verdict %d with the new key, want accepted", v)
		}
	}
	if v := o.open(one(now), 0, 0); v != deferred {
		t.Errorf("one more with the new key than the limit: %d", v)
	}
	set = both
	for at := now; at.Before(now.Add(11 * time.Minute)); at = at.Add(10 * time.Second) {
		o.begin(set, at, 0)
		for _, p := range first {
			if v := o.open(bytes.Clone(p), 0, 0); v != replayed && v != stale {
				t.Fatalf("replayed after %v: verdict %d, want replayed or stale", at.Sub(now), v)
			}
		}
	}
	if v := o.open(one(now.Add(11*time.Minute)), 0, 0); v != accepted {
		t.Errorf("verdict %d after the other senders have aged, want accepted", v)
	}
}

// A flood of packets with recorded marks and other content leaves room for a new sender, even one with such a mark: a
// cipher is derived once for each mark. docs/protocol §27.6.
func TestFloodOfRecordedMarks(t *testing.T) {
	set, now := testSet(t, 1), time.Now()
	o := testOpener(t, set)
	o.begin(set, now, 0)
	one := func() []byte {
		s := newSealer(0, rand.Reader)
		s.begin(set, now, 1)
		p := make([]byte, 1+Overhead)
		s.seal(p, []byte{1})
		return p
	}
	var good, recorded [][]byte
	for range 500 {
		p := one()
		good = append(good, p)
		recorded = append(recorded, append(bytes.Clone(p[:len(p)-1]), p[len(p)-1]^1))
	}
	for i := range 10 * trialsAtOnce {
		if v := o.open(bytes.Clone(recorded[i%len(recorded)]), 0, 0); v != forged {
			t.Fatalf("packet %d of the flood: verdict %d, want forged", i, v)
		}
	}
	if v := o.open(one(), 0, 0); v != accepted {
		t.Errorf("a new sender: verdict %d, want accepted", v)
	}
	for _, p := range good {
		if v := o.open(p, 0, 0); v != accepted {
			t.Fatalf("a sender with a recorded mark: verdict %d, want accepted", v)
		}
	}
	if n := len(o.candidates.all); n != 0 {
		t.Errorf("%d candidates remain, want none", n)
	}
}

// The number of new marks that are checked is limited by the trials, and memory stays bounded.
func TestTrials(t *testing.T) {
	set, now := testSet(t, 1), time.Now()
	o := testOpener(t, set)
	o.begin(set, now, 0)
	p := make([]byte, 1+Overhead)
	got := make(map[verdict]int)
	for range trialsAtOnce + 1000 {
		s := newSealer(0, rand.Reader)
		s.begin(set, now, 1)
		s.seal(p, []byte{1})
		p[len(p)-1] ^= 1
		got[o.open(p, 0, 0)]++
	}
	if got[forged] != trialsAtOnce || got[deferred] != 1000 {
		t.Errorf("verdicts %v, want %d forged and 1000 deferred", got, trialsAtOnce)
	}
	if n := len(o.candidates.all); n != maxCandidates || o.candidates.order.Len() != n {
		t.Errorf("%d candidates, %d in order, want %d of each", n, o.candidates.order.Len(), maxCandidates)
	}
	o.begin(set, now.Add(time.Second), 0)
	p[len(p)-1] ^= 2
	if v := o.open(p, 0, 0); v != forged {
		t.Errorf("verdict %d on a later forgery, want forged", v)
	}
}

// Every refused packet is counted.
func TestEveryVerdictIsCounted(t *testing.T) {
	for v := foreign; v < numVerdicts; v++ {
		var s stats.Seal
		v.count(&s, 1)
		if s == (stats.Seal{}) {
			t.Errorf("verdict %d is not counted", v)
		}
	}
}

// Nothing is allocated for a packet, whether accepted, replayed or refused.
func TestNoAllocations(t *testing.T) {
	set := testSet(t, 1)
	s, o := newSealer(0, rand.Reader), testOpener(t, set)
	plain, p, q := make([]byte, 100), make([]byte, 100+Overhead), make([]byte, 100+Overhead)
	next := func() {
		s.begin(set, time.Now(), 1)
		s.seal(p, plain)
	}
	next()
	o.open(p, 0, 0)
	if n := testing.AllocsPerRun(1000, func() {
		next()
		copy(q, p)
		q[60]++
		o.open(q, 0, 0)
		if o.open(p, 0, 0) != accepted || o.open(p, 0, 0) != replayed {
			t.Fatal("not accepted")
		}
		q[atSender]++
		o.open(q, 0, 0)
	}); n != 0 {
		t.Errorf("opening makes %v allocations, want none", n)
	}
}

// For any input, nothing panics, and only sealed packets are accepted.
func FuzzOpen(f *testing.F) {
	set, at := testSet(f, 1), time.Unix(1_800_000_000, 0)
	s := newSealer(0, mathrand.NewChaCha8([32]byte{})) // the same in every process of a fuzz run
	s.begin(set, at, 1)
	good := make([]byte, 10+Overhead)
	s.seal(good, make([]byte, 10))
	f.Add(good, uint8(0))
	f.Add(good[:Overhead], uint8(1))
	f.Add([]byte("Ff"), uint8(9))
	o := testOpener(f, set)
	o.begin(set, at, 0)
	f.Fuzz(func(t *testing.T, p []byte, leg uint8) {
		same := bytes.Equal(p, good)
		if v := o.open(bytes.Clone(p), 0, leg); v == accepted && !same {
			t.Errorf("changed packet %x accepted, want it refused", p)
		}
		Parse(p)
	})
}

// Accepted packets stay replays when their key becomes invalid and valid again.
func TestReplayAfterKeyIsValidAgain(t *testing.T) {
	set, now := testSet(t, 1), time.Now()
	o := testOpener(t, set)
	s := newSealer(0, rand.Reader)
	s.begin(set, now, 2)
	first, second := make([]byte, 1+Overhead), make([]byte, 1+Overhead)
	s.seal(first, []byte{1})
	s.seal(second, []byte{2})
	if v := o.open(bytes.Clone(first), 0, 0); v != accepted {
		t.Fatalf("verdict %d, want accepted", v)
	}
	for _, other := range []*Keyset{testSet(t, 2), testSet(t), nil} {
		if other != nil {
			o.begin(other, now, 0)
			if v := o.open(bytes.Clone(second), 0, 0); v != unknownKey {
				t.Errorf("verdict %d with other keys, want unknownKey", v)
			}
		}
		o.begin(set, now, 0)
		if v := o.open(bytes.Clone(first), 0, 0); v != replayed {
			t.Errorf("replayed after the key became valid again: verdict %d, want replayed", v)
		}
	}
	if v := o.open(second, 0, 0); v != accepted {
		t.Errorf("a later packet of the sender: verdict %d, want accepted", v)
	}
}

// When a receiver's clock is set forward or back, accepted packets stay replays, and no active sender is removed.
func TestReceiverClockIsSet(t *testing.T) {
	set, now := testSet(t, 1), time.Now().Round(0)
	o := testOpener(t, set)
	o.began = now
	var all [][]byte
	for range sweepFrom + 6 {
		s := newSealer(0, rand.Reader)
		s.begin(set, now, 1)
		p := make([]byte, 1+Overhead)
		s.seal(p, []byte{1})
		all = append(all, bytes.Clone(p))
		if v := o.open(p, 0, 0); v != accepted {
			t.Fatalf("verdict %d, want accepted", v)
		}
	}
	if o.senders.room(1, owner{}, 10); len(o.senders.all) != len(all) {
		t.Errorf("%d of %d senders are known after the clock was set forward, want all", len(o.senders.all), len(all))
	}
	later := now.Add(time.Duration(2*o.skew+sweepEvery) * time.Second)
	o.begin(set, later, 0)
	if o.senders.room(1, owner{}, o.elapsed); len(o.senders.all) != 0 {
		t.Fatalf("%d senders are known after %v, want none", len(o.senders.all), later.Sub(now))
	}
	o.begin(set, now.Add(time.Minute), 0) // set back
	for _, p := range all {
		if v := o.open(p, 0, 0); v != replayed {
			t.Fatalf("replayed after the clock was set back: verdict %d, want replayed", v)
		}
	}
}

// Packets with the name of a known sender and forged key ids are reported as other packets with such ids: only a
// limited number.
func TestForgedKeyIDsOfKnownSender(t *testing.T) {
	now := time.Now()
	set := testSet(t, 1, 2)
	s, o := newSealer(3, rand.Reader), testOpener(t, set)
	if err := s.begin(set, now, 1); err != nil {
		t.Fatal(err)
	}
	good := make([]byte, 30+Overhead)
	s.seal(good, make([]byte, 30))
	if v := o.open(bytes.Clone(good), 3, 0); v != accepted {
		t.Fatalf("verdict %d, want accepted", v)
	}
	var n notices
	for id := range uint32(10 * maxUnknownKeys) {
		p := bytes.Clone(good)
		binary.LittleEndian.PutUint32(p[atKey:], 1000+id)
		v := o.open(p, 3, 0)
		if v != unknownKey {
			t.Fatalf("an unknown key: verdict %d, want %d", v, unknownKey)
		}
		n.shouldReport(v, p)
	}
	if len(n.reported) > maxUnknownKeys {
		t.Errorf("%d forged key ids are remembered, want %d at most", len(n.reported), maxUnknownKeys)
	}
	other := bytes.Clone(good)
	binary.LittleEndian.PutUint32(other[atKey:], uint32(3-header(good).key())) // the other known key
	if v := o.open(other, 3, 0); v != forged {
		t.Errorf("another known key: verdict %d, want %d", v, forged)
	}
}

// Forged key ids do not hide other reports. When there are too many to report each, that is reported once.
func TestForgedKeyIDsHideNothing(t *testing.T) {
	var n notices
	p := make([]byte, 1+Overhead)
	reported := make(map[transport.UnreadableReason]int)
	for id := range uint32(10 * maxUnknownKeys) {
		binary.LittleEndian.PutUint32(p[atKey:], id+1)
		if x, ok := n.shouldReport(unknownKey, p); ok {
			reported[x.why]++
		}
	}
	if one, more := reported[transport.UnreadableKey], reported[transport.UnreadableManyKeys]; one != maxUnknownKeys || more != 1 || len(n.reported) != maxUnknownKeys {
		t.Errorf("%d forged keys are reported, %d times that there are more, and %d are remembered; want %d, 1 and as many", one, more, len(n.reported), maxUnknownKeys)
	}
	for _, v := range []verdict{unsealed, otherVersion, expiredKey, stale, forged, deferred} {
		if _, ok := n.shouldReport(v, p); !ok {
			t.Errorf("verdict %d is not reported", v)
		}
	}
}

func TestNoKeys(t *testing.T) {
	if list := (*Keyset)(nil).Keys(); len(list) > 0 {
		t.Errorf("keys %v of a nil Keyset, want none", list)
	}
}
