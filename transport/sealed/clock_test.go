package sealed

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// timedSet returns a keyset of keys 1, 2, ..., each valid between two times in seconds after base; 0 is no bound.
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

// After a sender's wrong clock is corrected, the sender uses the right key for the time. docs/protocol §27.7.
func TestSenderClockIsCorrected(t *testing.T) {
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
		t.Errorf("begin before the only key is valid: error %v, want %v", err, ErrNoKey)
	}
	if err := s.begin(late, base.Add(1000*time.Second), 1); err != nil {
		t.Error(err)
	}
	if err := s.begin(late, base, 1); !errors.Is(err, ErrNoKey) {
		t.Errorf("begin after the clock was set back before the only key is valid: error %v, want %v", err, ErrNoKey)
	}
}

// A receiver that refused a key as expired, because its clock was ahead, accepts the key when the clock is corrected.
// It also accepts a key some minutes before the key's start. docs/protocol §27.7.
func TestReceiverClockIsCorrected(t *testing.T) {
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
		o.begin(set, base.Add(time.Duration(at)*time.Second), 0)
		if v := o.open(p, 0, 0); v != want {
			t.Errorf("at %d: verdict %d, want %d", at, v, want)
		}
	}
	open(0, accepted)
	open(1000, expiredKey)
	open(0, accepted)
	for _, c := range []struct {
		at   int
		want verdict
	}{{4699, expiredKey}, {4700, accepted}} {
		p := one(t, timedSet(t, base, [2]int{1, 2}, [2]int{}), base.Add(4700*time.Second)) // with a clock that is ahead
		o.begin(set, base.Add(time.Duration(c.at)*time.Second), 0)
		if v := o.open(p, 0, 0); v != c.want {
			t.Errorf("key 2 at %d: verdict %d, want %d", c.at, v, c.want)
		}
	}
}

// A key that ends before it starts is revoked: it is never used to send, and never accepted. Other keys in the keyring
// still work. docs/protocol §27.1.
func TestRevokedKey(t *testing.T) {
	bad := timedSet(t, base, [2]int{0, 0}, [2]int{1000, 900})
	p := one(t, timedSet(t, base, [2]int{1, 2}, [2]int{}), base.Add(800*time.Second))
	for _, at := range []int{0, 800, 899, 950, 1000, 2000} {
		now := base.Add(time.Duration(at) * time.Second)
		if id, ok := bad.Sending(now); !ok || id != 1 {
			t.Errorf("at %d: sends with key %v, %v, want key 1", at, id, ok)
		}
		o := testOpener(t, bad)
		o.begin(bad, now, 0)
		if v := o.open(bytes.Clone(p), 0, 0); v != expiredKey {
			t.Errorf("at %d: verdict %d, want expiredKey", at, v)
		}
	}
}

// Packets delayed by more than 5 minutes are refused, even those of a known sender. docs/protocol §27.6.
func TestDelayedPackets(t *testing.T) {
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
		o.begin(set, base.Add(time.Duration(now)*time.Second), 0)
		if v := o.open(bytes.Clone(p), 0, leg); v != want {
			t.Errorf("%s: verdict %d, want %d", what, v, want)
		}
	}
	first, kept, some := seal(0), seal(1), seal(2)
	open("the first", first, 0, 0, accepted)
	open("one that others overtake by minutes", seal(301), 0, 301, accepted)
	open("one delayed by the maximum", kept, 0, 301, accepted)
	open("one delayed by more than the maximum", some, 0, 303, stale)
	open("the same one on another leg", some, 1, 303, stale)
	open("the next one", seal(303), 0, 303, accepted)
}

// The times in a sender's packets never decrease for one salt: a sender whose clock is set back uses another salt.
// Receivers still accept it, if its clock is wrong by at most 5 minutes. docs/protocol §27.4.
func TestSenderClockIsSetBack(t *testing.T) {
	set := testSet(t, 1)
	s, o := newSealer(0, rand.Reader), testOpener(t, set)
	now, salts := base, make(map[sender]uint32)
	o.began = now
	for i, at := range []int{0, 1, 1, -60, -59, -59, -60, 200, 299, -299, 301, -301, 3600, 0} {
		now = now.Add(time.Second)
		o.begin(set, now, 0)
		if err := s.begin(set, now.Add(time.Duration(at)*time.Second), 1); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 1+Overhead)
		s.seal(p, []byte{1})
		h := header(bytes.Clone(p))
		if was, there := salts[h.sender()]; there && was > h.time() {
			t.Errorf("step %d: the time of a salt decreases from %d to %d", i, was, h.time())
		}
		salts[h.sender()] = h.time()
		want := accepted
		if max(at, -at) > 300 {
			want = stale
		}
		if v := o.open(p, 0, 0); v != want {
			t.Errorf("step %d, a clock that is %d s ahead: verdict %d, want %d", i, at, v, want)
		} else if v == stale && o.offOf(v, h) != time.Duration(at)*time.Second {
			t.Errorf("step %d: its clock is reported as %v ahead, want %v", i, o.offOf(v, h), time.Duration(at)*time.Second)
		}
	}
	if len(salts) != 5 {
		t.Errorf("%d salts, want 5", len(salts))
	}
}

// Whatever the clocks of sender and receiver do, accepted packets are not accepted again, even after the receiver has
// removed the sender. docs/protocol §27.6.
func TestNoReplayOfRemovedSenders(t *testing.T) {
	random := newPCG(t)
	again, forgot := 0, 0
	for range 20 {
		cfg := Config{}.withDefaults()
		set, o := testSet(t, 1), newOpener(&cfg)
		steady, wall, hosts := base, time.Duration(0), 0
		o.from = func() string { hosts++; return fmt.Sprint(hosts) }
		o.began = base
		received := make(map[string]int)
		var all []string
		for range 600 {
			d := time.Duration(random.Int64N(20)) * time.Second
			steady = steady.Add(d)
			if random.IntN(20) == 0 { // this host's clock is changed
				wall = time.Duration(random.Int64N(3600)-1800) * time.Second
			}
			now := steady.Add(wall)
			o.begin(set, now, 0)
			o.elapsed = int64(steady.Sub(base) / time.Second) // on the monotonic clock
			for range 3 {
				p := one(t, set, now.Add(time.Duration(random.Int64N(700)-350)*time.Second))
				all = append(all, string(p))
				if o.open(p, 0, 0) == accepted {
					received[all[len(all)-1]]++
				}
			}
			before := len(o.senders.all)
			for range 10 {
				p := all[random.IntN(len(all))]
				if o.open([]byte(p), 0, 0) == accepted {
					if received[p]++; received[p] > 1 {
						t.Fatalf("%d s after the start, with a clock that is wrong by %v: accepted again", o.elapsed, wall)
					}
				} else if received[p] > 0 {
					again++
				}
			}
			o.senders.room(1, owner{}, o.elapsed)
			if len(o.senders.all) < before {
				forgot++
			}
		}
	}
	if again == 0 || forgot == 0 {
		t.Fatalf("%d replays, senders were removed %d times: too few for this test", again, forgot)
	}
}

// After wrong clocks of the receiver, of some hosts or of all are corrected, all senders are accepted, even those that
// were removed meanwhile. Their earlier packets are not accepted again. docs/protocol §27.6.
func TestClocksAreCorrected(t *testing.T) {
	set := testSet(t, 1)
	for _, off := range []time.Duration{-24 * time.Hour, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour} {
		for _, wrong := range []int{0, 1, 35, 70} { // hosts with a wrong clock of 70, in addition to the receiver
			t.Run(fmt.Sprintf("%v, of %d hosts", off, wrong), func(t *testing.T) {
				o := testOpener(t, set)
				now, clock, hosts := base, time.Duration(0), 0
				o.from = func() string { hosts++; return fmt.Sprint(hosts) }
				o.began = base
				steps := func(n int) {
					now = now.Add(time.Duration(n) * time.Second)
					o.began = base.Add(clock) // on the monotonic clock
					o.begin(set, now.Add(clock), 0)
					o.senders.room(1, owner{}, o.elapsed)
				}
				var live [70]*sealer
				var sent [][]byte
				received := make(map[string]bool)
				open := func(p []byte) bool {
					if o.open(bytes.Clone(p), 0, 0) != accepted {
						return false
					}
					if received[string(p)] {
						t.Fatal("a packet was accepted twice")
					}
					received[string(p)] = true
					return true
				}
				receive := func() (received int) {
					for i := range live {
						at := now
						if i < wrong {
							at = at.Add(clock)
						}
						if live[i] == nil {
							live[i] = newSealer(0, rand.Reader)
						}
						if err := live[i].begin(set, at, 1); err != nil {
							t.Fatal(err)
						}
						p := make([]byte, 1+Overhead)
						live[i].seal(p, []byte{1})
						sent = append(sent, p)
						if open(p) {
							received++
						}
					}
					return received
				}
				want := func(what string, want int) {
					t.Helper()
					if n := receive(); n != want {
						t.Errorf("%s: %d of 70 are accepted, want %d", what, n, want)
					}
					for _, p := range sent {
						open(p)
					}
				}
				steps(1)
				want("before", 70)
				clock = off
				steps(1)
				want("while clocks are wrong", wrong)
				for range 70 {
					if steps(10); wrong > 0 {
						live[0] = nil // the first sender restarts
						receive()
					}
				}
				if known := len(o.senders.all); off > 0 && known > 2*wrong+62 {
					t.Fatalf("%d are known: too few were removed", known)
				}
				clock = 0
				steps(1)
				want("after the clocks are corrected", 70)
				clear(live[:])
				want("others", 70)
			})
		}
	}
}

// A clock that moves back and forth does not fill the table of senders permanently, although all senders use new salts
// each time that it is right again, and the table has only little more room than they need. docs/protocol §27.6,
// §27.10.
func TestClocksMoveBackAndForth(t *testing.T) {
	const hosts = 50
	cfg := Config{MaxSenders: 3 * hosts}.withDefaults()
	set, o := testSet(t, 1), newOpener(&cfg)
	at, now := 0, base
	o.from = func() string { return fmt.Sprintf("10.0.0.%d:7", at) }
	live := make([]*sealer, hosts)
	for i := range live {
		live[i] = newSealer(0, rand.Reader)
	}
	for flap := range 40 {
		off := time.Duration(flap%2) * 365 * 24 * time.Hour
		o.began = base.Add(off) // on the monotonic clock
		received := 0
		for range 30 {
			now, received = now.Add(30*time.Second), 0
			o.begin(set, now.Add(off), 0)
			for at = range live {
				if err := live[at].begin(set, now.Add(off), 1); err != nil {
					t.Fatal(err)
				}
				p := make([]byte, 1+Overhead)
				live[at].seal(p, []byte{1})
				if o.open(p, 0, 0) == accepted {
					received++
				}
			}
		}
		if received != hosts {
			t.Errorf("flap %d: %d of %d are accepted; %d are known", flap, received, hosts, len(o.senders.all))
		}
	}
}

// A receiver with room for few senders also removes old ones.
func TestFewSenders(t *testing.T) {
	for _, maximum := range []int{1, 2, 60, 128} {
		cfg := Config{MaxSenders: maximum}.withDefaults()
		set, o := testSet(t, 1), newOpener(&cfg)
		for i := range 200 {
			now := base.Add(time.Duration(i) * 700 * time.Second)
			o.begin(set, now, 0)
			if v := o.open(one(t, set, now), 0, 0); v != accepted {
				t.Fatalf("room for %d: sender %d: verdict %d, want accepted", maximum, i, v)
			}
		}
	}
}

// The time in packets has 32 bits: in 2106 it wraps around, without other effects. docs/protocol §27.2.
func TestYear2106(t *testing.T) {
	set := testSet(t, 1)
	turn := time.Unix(1<<32, 0)
	o := testOpener(t, set)
	live := newSealer(0, rand.Reader)
	var first []byte
	for at := -400; at < 800; at += 10 {
		now := turn.Add(time.Duration(at) * time.Second)
		o.begin(set, now, 0)
		if err := live.begin(set, now, 1); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 1+Overhead)
		live.seal(p, []byte{1})
		if first == nil {
			first = bytes.Clone(p)
		}
		if v := o.open(p, 0, 0); v != accepted {
			t.Fatalf("%d s after the wrap-around: verdict %d, want accepted", at, v)
		}
		for off, want := range map[int]verdict{-301: stale, -299: accepted, 299: accepted, 301: stale} {
			if v := o.open(one(t, set, now.Add(time.Duration(off)*time.Second)), 0, 0); v != want {
				t.Errorf("%d s after the wrap-around, a new sender with a clock wrong by %d s: verdict %d, want %d", at, off, v, want)
			}
		}
		if v := o.open(bytes.Clone(first), 0, 0); v != replayed && v != stale {
			t.Fatalf("replayed %d s after the wrap-around: verdict %d, want replayed or stale", at, v)
		}
	}
	if o.senders.room(1, owner{}, o.elapsed); len(o.senders.all) > 240 {
		t.Errorf("%d senders are known: none was removed", len(o.senders.all))
	}
}

// Two ids with one secret are rejected, because revoking one would not revoke the other.
func TestSameSecretTwice(t *testing.T) {
	if _, err := NewKeyset([]Key{{ID: 1, Secret: [32]byte{1}}, {ID: 2, Secret: [32]byte{1}}}); err == nil {
		t.Error("they were accepted")
	}
}
