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

// A packet of each kind, and its verdict. A refused packet makes no sender known. docs/protocol
// §27.6.
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
		with   *Keyset // of the receiver
		want   verdict
	}{
		{"good", func() []byte { return seal(set, 3, now) }, set, taken},
		{"empty", func() []byte { return nil }, set, foreign},
		{"only a header and a tag", func() []byte { return seal(set, 3, now)[:Overhead] }, set, foreign},
		{"of another program", func() []byte { return bytes.Repeat([]byte{1}, 100) }, set, foreign},
		{"open", func() []byte { return append([]byte("Ff\x01\x01"), make([]byte, 100)...) }, set, unsealed},
		{"signed", func() []byte { return append([]byte("Fg\x01\x01"), make([]byte, 100)...) }, set, unsealed},
		{"short and open", func() []byte { return []byte("Ff") }, set, unsealed},
		{"another version", func() []byte { p := seal(set, 3, now); p[2] = 9; return p }, set, otherVersion},
		{"a key that is not there", func() []byte { return seal(testSet(t, 2), 3, now) }, set, unknownKey},
		{"no keys", func() []byte { return seal(set, 3, now) }, nil, unknownKey},
		{"a key that is over", func() []byte { return seal(set, 3, now) }, over(), expiredKey},
		{"another secret", func() []byte { return seal(set, 3, now) }, otherSecret(), forged},
		{"of another group", func() []byte { return seal(set, 4, now) }, set, forged},
		{"a reply", func() []byte { return seal(set, unicastIndex, now) }, set, forged},
		{"old", func() []byte { return seal(set, 3, now.Add(-6*time.Minute)) }, set, stale},
		{"from the future", func() []byte { return seal(set, 3, now.Add(6*time.Minute)) }, set, stale},
		{"not quite old", func() []byte { return seal(set, 3, now.Add(-4*time.Minute)) }, set, taken},
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
			if known := len(o.senders.all) > 0; known != (c.want == taken) {
				t.Errorf("%d senders are known", len(o.senders.all))
			}
			if c.want == taken && !bytes.Equal(p[headerLen:headerLen+100], bytes.Repeat([]byte{7}, 100)) {
				t.Error("it was not decrypted where it lies")
			}
		})
	}
}

// Every change of any one bit, and every truncation, is refused, of a sender that is known as of one
// that is not. docs/protocol §27.6.
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
			if v := o.open(first, 3, 0); v != taken {
				t.Fatal(v)
			}
		}
		for bit := range 8 * len(good) {
			p := bytes.Clone(good)
			p[bit/8] ^= 1 << (bit % 8)
			if o.open(p, 3, 0) == taken {
				t.Errorf("known %v: taken with bit %d changed", known, bit)
			}
		}
		for n := range len(good) {
			if o.open(bytes.Clone(good[:n]), 3, 0) == taken {
				t.Errorf("known %v: taken with %d bytes of %d", known, n, len(good))
			}
		}
		if v := o.open(bytes.Clone(good), 3, 0); v != taken {
			t.Errorf("known %v: what is good is not taken after all that: %d", known, v)
		}
	}
}

// A repeated packet is refused: at once, later, out of order; on each leg it is accepted once. A packet
// that does not verify uses no counter up. docs/protocol §27.6.
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
	want(5, 0, taken)
	want(5, 0, replayed)
	want(5, 1, taken)
	want(5, 1, replayed)
	want(3, 0, taken)
	want(3, 0, replayed)
	forgery := bytes.Clone(packets[n-1])
	forgery[len(forgery)-1] ^= 1
	if v := o.open(forgery, 0, 0); v != forged {
		t.Fatal(v)
	}
	want(windowPackets+2, 0, taken)
	want(4, 0, taken) // it is just remembered that it has not come,
	want(2, 0, replayed)
	want(n-1, 0, taken)
	want(windowPackets+3, 0, replayed) // and of this it is not any more
	want(n-2, 0, taken)
	for i := range n {
		if i < windowPackets*2 && open(i, 0) != replayed {
			t.Fatalf("packet %d is taken, which is too old", i)
		}
	}
}

// Invented senders cost no memory and displace no sender; known senders are forgotten only when their
// packets would be refused for their age. docs/protocol §27.6.
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
		if v := o.open(p, 0, 0); v != taken {
			t.Fatal(v)
		}
	}
	if v := o.open(one(now), 0, 0); v != deferred {
		t.Errorf("one more than may be: %d", v)
	}
	// During a key rotation, senders with the new key have room beside those with the old one.
	both := testSet(t, 1, 2)
	o.begin(both, now, 0)
	set, both = testSet(t, 2), set
	for range 100 {
		if v := o.open(one(now), 0, 0); v != taken {
			t.Fatalf("with the new key: %d", v)
		}
	}
	if v := o.open(one(now), 0, 0); v != deferred {
		t.Errorf("one more of the new key than may be: %d", v)
	}
	set = both
	for at := now; at.Before(now.Add(11 * time.Minute)); at = at.Add(10 * time.Second) {
		o.begin(set, at, 0)
		for _, p := range first {
			if v := o.open(bytes.Clone(p), 0, 0); v != replayed && v != stale {
				t.Fatalf("played back after %v: verdict %d", at.Sub(now), v)
			}
		}
	}
	if v := o.open(one(now.Add(11*time.Minute)), 0, 0); v != taken {
		t.Errorf("there is no room after the others have aged: %d", v)
	}
}

// A flood of packets with recorded marks, each followed by something else, leaves room for a new
// sender, even the one with that mark: for each mark a cipher is derived once. docs/protocol §27.6.
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
			t.Fatalf("packet %d of the flood: verdict %d", i, v)
		}
	}
	if v := o.open(one(), 0, 0); v != taken {
		t.Errorf("a sender that is new: verdict %d", v)
	}
	for _, p := range good {
		if v := o.open(p, 0, 0); v != taken {
			t.Fatalf("a sender whose mark was recorded: verdict %d", v)
		}
	}
	if n := len(o.candidates.all); n != 0 {
		t.Errorf("%d candidates are left", n)
	}
}

// Of more marks than are remembered so many are looked at as trials allow, and memory stays bounded.
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
		t.Errorf("%v", got)
	}
	if n := len(o.candidates.all); n != maxCandidates || o.candidates.order.Len() != n {
		t.Errorf("%d candidates, %d in order", n, o.candidates.order.Len())
	}
	o.begin(set, now.Add(time.Second), 0)
	p[len(p)-1] ^= 2
	if v := o.open(p, 0, 0); v != forged {
		t.Errorf("later: %d", v)
	}
}

// No packet that is refused is counted under nothing.
func TestEveryVerdictIsCounted(t *testing.T) {
	for v := foreign; v < numVerdicts; v++ {
		var s stats.Seal
		v.count(&s, 1)
		if s == (stats.Seal{}) {
			t.Errorf("verdict %d", v)
		}
	}
}

// Nothing is allocated for a packet that is taken, replayed or refused.
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
		if o.open(p, 0, 0) != taken || o.open(p, 0, 0) != replayed {
			t.Fatal("not taken")
		}
		q[atSender]++
		o.open(q, 0, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// For any input, nothing panics, and only sealed packets are accepted.
func FuzzOpen(f *testing.F) {
	set, at := testSet(f, 1), time.Unix(1_800_000_000, 0)
	s := newSealer(0, mathrand.NewChaCha8([32]byte{})) // the same in each process that fuzzes
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
		if v := o.open(bytes.Clone(p), 0, leg); v == taken && !same {
			t.Errorf("taken: %x", p)
		}
		Parse(p)
	})
}

// A key that is invalid for a while, and becomes valid again, does not make accepted packets new.
func TestReplayAfterKeyCameBack(t *testing.T) {
	set, now := testSet(t, 1), time.Now()
	o := testOpener(t, set)
	s := newSealer(0, rand.Reader)
	s.begin(set, now, 2)
	first, second := make([]byte, 1+Overhead), make([]byte, 1+Overhead)
	s.seal(first, []byte{1})
	s.seal(second, []byte{2})
	if v := o.open(bytes.Clone(first), 0, 0); v != taken {
		t.Fatal(v)
	}
	for _, other := range []*Keyset{testSet(t, 2), testSet(t), nil} {
		if other != nil {
			o.begin(other, now, 0)
			if v := o.open(bytes.Clone(second), 0, 0); v != unknownKey {
				t.Errorf("with other keys: verdict %d", v)
			}
		}
		o.begin(set, now, 0)
		if v := o.open(bytes.Clone(first), 0, 0); v != replayed {
			t.Errorf("played back after the key came back: verdict %d", v)
		}
	}
	if v := o.open(second, 0, 0); v != taken {
		t.Errorf("the sender goes on: verdict %d", v)
	}
}

// When a receiver's clock is set, forward or back, no accepted packet becomes new again, and no active
// sender is forgotten.
func TestClockOfReceiverIsSet(t *testing.T) {
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
		if v := o.open(p, 0, 0); v != taken {
			t.Fatal(v)
		}
	}
	if o.senders.room(1, owner{}, 10); len(o.senders.all) != len(all) {
		t.Errorf("%d of %d senders are known after the clock was set forward", len(o.senders.all), len(all))
	}
	later := now.Add(time.Duration(2*o.skew+sweepEvery) * time.Second)
	o.begin(set, later, 0)
	if o.senders.room(1, owner{}, o.elapsed); len(o.senders.all) != 0 {
		t.Fatalf("%d senders are known after %v", len(o.senders.all), later.Sub(now))
	}
	o.begin(set, now.Add(time.Minute), 0) // set back
	for _, p := range all {
		if v := o.open(p, 0, 0); v != replayed {
			t.Fatalf("played back after the clock was set back: verdict %d", v)
		}
	}
}

// Packets in the name of a known sender with forged key ids are reported as any others with such ids:
// only a few.
func TestMadeUpKeysOfAKnownSender(t *testing.T) {
	now := time.Now()
	set := testSet(t, 1, 2)
	s, o := newSealer(3, rand.Reader), testOpener(t, set)
	if err := s.begin(set, now, 1); err != nil {
		t.Fatal(err)
	}
	good := make([]byte, 30+Overhead)
	s.seal(good, make([]byte, 30))
	if v := o.open(bytes.Clone(good), 3, 0); v != taken {
		t.Fatalf("verdict %d", v)
	}
	var n notices
	for id := range uint32(10 * maxLacking) {
		p := bytes.Clone(good)
		binary.LittleEndian.PutUint32(p[atKey:], 1000+id)
		v := o.open(p, 3, 0)
		if v != unknownKey {
			t.Fatalf("a key that is not there: verdict %d, want %d", v, unknownKey)
		}
		n.wants(v, p)
	}
	if len(n.reported) > maxLacking {
		t.Errorf("%d made-up keys are remembered, want %d at most", len(n.reported), maxLacking)
	}
	other := bytes.Clone(good)
	binary.LittleEndian.PutUint32(other[atKey:], uint32(3-header(good).key())) // the other one that is there
	if v := o.open(other, 3, 0); v != forged {
		t.Errorf("another key that is there: verdict %d, want %d", v, forged)
	}
}

// Forged key ids do not hide other reports, and it is reported once that there are more than are
// reported one by one.
func TestMadeUpKeysHideNothing(t *testing.T) {
	var n notices
	p := make([]byte, 1+Overhead)
	reported := make(map[transport.UnreadableReason]int)
	for id := range uint32(10 * maxLacking) {
		binary.LittleEndian.PutUint32(p[atKey:], id+1)
		if x, ok := n.wants(unknownKey, p); ok {
			reported[x.why]++
		}
	}
	if one, more := reported[transport.UnreadableKey], reported[transport.UnreadableManyKeys]; one != maxLacking || more != 1 || len(n.reported) != maxLacking {
		t.Errorf("%d forged keys are reported, and %d times that there are more, and %d are remembered, want %d and once", one, more, len(n.reported), maxLacking)
	}
	for _, v := range []verdict{unsealed, otherVersion, expiredKey, stale, forged, deferred} {
		if _, ok := n.wants(v, p); !ok {
			t.Errorf("verdict %d is not reported", v)
		}
	}
}

func TestKeysOfNone(t *testing.T) {
	if list := (*Keyset)(nil).Keys(); len(list) > 0 {
		t.Errorf("%v", list)
	}
}
