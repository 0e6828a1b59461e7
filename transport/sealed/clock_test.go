package sealed

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// timedSet is a keyset of keys 1, 2, ... that are valid between the times given, in seconds after base; 0 is no bound.
func timedSet(t *testing.T, base time.Time, bounds ...[2]int) *Keyset {
	t.Helper()
	var list []Key
	for i, x := range bounds {
		k := Key{ID: KeyID(1 + i), Secret: [32]byte{byte(1 + i)}}
		if x[0] != 0 {
			k.NotBefore = base.Add(time.Duration(x[0]) * time.Second)
		}
		if x[1] != 0 {
			k.NotAfter = base.Add(time.Duration(x[1]) * time.Second)
		}
		list = append(list, k)
	}
	s, err := NewKeyset(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// one seals a packet of a new sender of group 0.
func one(t *testing.T, set *Keyset, at time.Time) []byte {
	t.Helper()
	s := newSealer(0, rand.Reader)
	if err := s.begin(set, at, 1); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 1+Overhead)
	s.seal(p, []byte{1})
	return p
}

var base = time.Unix(1_800_000_000, 0)

// A sender whose clock was ahead, or behind, uses the key of the time that it is when the clock is set right.
// docs/protocol.md §27.7.
func TestSenderWhoseClockIsSet(t *testing.T) {
	set := timedSet(t, base, [2]int{0, 2000}, [2]int{1000, 0})
	s := newSealer(0, rand.Reader)
	for _, c := range []struct {
		at   int
		want KeyID
	}{{0, 1}, {5000, 2}, {0, 1}, {1500, 2}, {999, 1}, {1000, 2}, {-100_000, 1}} {
		if err := s.begin(set, base.Add(time.Duration(c.at)*time.Second), 1); err != nil {
			t.Fatal(err)
		}
		if s.key.ID != c.want {
			t.Errorf("at %d: key %v, want %v", c.at, s.key.ID, c.want)
		}
	}
	late := timedSet(t, base, [2]int{1000, 0})
	if err := s.begin(late, base, 1); !errors.Is(err, ErrNoKey) || !errors.Is(err, transport.ErrNotReady) {
		t.Errorf("before the only key begins: %v", err)
	}
	if err := s.begin(late, base.Add(1000*time.Second), 1); err != nil {
		t.Error(err)
	}
	if err := s.begin(late, base, 1); !errors.Is(err, ErrNoKey) {
		t.Errorf("set back to before the only key begins: %v", err)
	}
}

// A receiver whose clock was ahead, and refused a key as over, takes it when the clock is set right; and
// takes a key from some minutes before it begins on. docs/protocol.md §27.7.
func TestReceiverWhoseClockIsSet(t *testing.T) {
	set := timedSet(t, base, [2]int{0, 1000}, [2]int{5000, 0})
	o := testOpener(t, set)
	s := newSealer(0, rand.Reader)
	open := func(at int, want verdict) {
		t.Helper()
		if err := s.begin(set, base, 1); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 1+Overhead)
		s.seal(p, []byte{1})
		o.begin(set, base.Add(time.Duration(at)*time.Second))
		if v := o.open(p, 0, 0); v != want {
			t.Errorf("at %d: verdict %d, want %d", at, v, want)
		}
	}
	open(0, taken)
	open(1000, expiredKey)
	open(0, taken)
	for _, c := range []struct {
		at   int
		want verdict
	}{{4699, expiredKey}, {4700, taken}} {
		p := one(t, timedSet(t, base, [2]int{1, 2}, [2]int{}), base.Add(4700*time.Second)) // a clock that is ahead
		o.begin(set, base.Add(time.Duration(c.at)*time.Second))
		if v := o.open(p, 0, 0); v != c.want {
			t.Errorf("key 2 at %d: verdict %d, want %d", c.at, v, c.want)
		}
	}
}

// A key whose end is set before its beginning is revoked: nobody sends with it, and nobody takes it, at no time.
// Others in the keyring go on. docs/protocol.md §27.1.
func TestKeyThatEndsBeforeItBegins(t *testing.T) {
	bad := timedSet(t, base, [2]int{0, 0}, [2]int{1000, 900})
	p := one(t, timedSet(t, base, [2]int{1, 2}, [2]int{}), base.Add(800*time.Second))
	for _, at := range []int{0, 800, 899, 950, 1000, 2000} {
		now := base.Add(time.Duration(at) * time.Second)
		if id, ok := bad.Sending(now); !ok || id != 1 {
			t.Errorf("at %d: sends with %v", at, id)
		}
		o := testOpener(t, bad)
		o.begin(bad, now)
		if v := o.open(bytes.Clone(p), 0, 0); v != expiredKey {
			t.Errorf("at %d: verdict %d", at, v)
		}
	}
}

// What was kept back, of a sender that is known, is not taken minutes after what was sent after it. A sender whose
// clock is set, either way, goes on. docs/protocol.md §27.6.
func TestHeldBack(t *testing.T) {
	set := testSet(t, 1)
	s, o := newSealer(0, rand.Reader), testOpener(t, set)
	seal := func(at int) []byte {
		if err := s.begin(set, base.Add(time.Duration(at)*time.Second), 1); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 1+Overhead)
		s.seal(p, []byte{1})
		return p
	}
	open := func(what string, p []byte, leg uint8, now int, want verdict) {
		t.Helper()
		o.begin(set, base.Add(time.Duration(now)*time.Second))
		if v := o.open(bytes.Clone(p), 0, leg); v != want {
			t.Errorf("%s: verdict %d, want %d", what, v, want)
		}
	}
	first, kept, some := seal(0), seal(1), seal(2)
	open("the first", first, 0, 0, taken)
	open("one that others overtake by minutes", seal(301), 0, 301, taken)
	open("one that was kept back as long as may be", kept, 0, 301, taken)
	open("one later", seal(303), 0, 303, taken)
	open("one that was kept back for too long", some, 0, 303, replayed)
	open("it again, on another leg", some, 1, 303, replayed)
	behind := seal(-3600)
	open("of a clock that was set back", behind, 0, 304, taken)
	open("the next one", seal(-3599), 0, 305, taken)
	ahead := seal(7200)
	open("of a clock that was set forward", ahead, 0, 306, taken)
	open("the next one", seal(7201), 0, 307, taken)
}

// The time in packets has 32 bits: in 2106 it begins again, and nothing else does. docs/protocol.md §27.2.
func TestYear2106(t *testing.T) {
	set := testSet(t, 1)
	turn := time.Unix(1<<32, 0)
	o := testOpener(t, set)
	live := newSealer(0, rand.Reader)
	var first []byte
	for at := -400; at < 800; at += 10 {
		now := turn.Add(time.Duration(at) * time.Second)
		o.begin(set, now)
		if err := live.begin(set, now, 1); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 1+Overhead)
		live.seal(p, []byte{1})
		if first == nil {
			first = bytes.Clone(p)
		}
		if v := o.open(p, 0, 0); v != taken {
			t.Fatalf("%d s behind the turn: verdict %d", at, v)
		}
		for off, want := range map[int]verdict{-301: stale, -299: taken, 299: taken, 301: stale} {
			if v := o.open(one(t, set, now.Add(time.Duration(off)*time.Second)), 0, 0); v != want {
				t.Errorf("%d s behind the turn, a new sender whose clock is %d s off: verdict %d, want %d", at, off, v, want)
			}
		}
		if v := o.open(bytes.Clone(first), 0, 0); v != replayed {
			t.Fatalf("played back %d s behind the turn: verdict %d", at, v)
		}
	}
	if o.senders.room(1, who{}, o.now, o.elapsed); len(o.senders.all) > 240 {
		t.Errorf("%d senders are remembered: none is forgotten", len(o.senders.all))
	}
}

// Two ids with one secret are refused: to revoke one would not revoke the other.
func TestSameSecretTwice(t *testing.T) {
	if _, err := NewKeyset([]Key{{ID: 1, Secret: [32]byte{1}}, {ID: 2, Secret: [32]byte{1}}}); err == nil {
		t.Error("they are taken")
	}
}
