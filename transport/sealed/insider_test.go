package sealed

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"testing"
	"time"
)

// A holder of the group's key against other holders: docs/protocol §27.6, §27.9.

// as seals a packet with the name of a sender, any counter and time. Every holder of the key can do so.
func as(t *testing.T, set *Keyset, name []byte, index, counter uint32, at time.Time) []byte {
	t.Helper()
	s := newSealer(index, rand.Reader)
	if err := s.begin(set, at, 1); err != nil {
		t.Fatal(err)
	}
	aead, err := s.key.derive(name[atSender:atMark], index)
	if err != nil {
		t.Fatal(err)
	}
	s.aead, s.next = aead, uint64(counter)
	copy(s.head[atSender:atTrain], name[atSender:atTrain])
	p := make([]byte, 1+Overhead)
	s.seal(p, []byte{66})
	return p
}

// One packet with the name of a sender, any counter and time, makes receivers refuse the sender's packets until its
// clock has passed that time, for 5 minutes at most: in a group and by unicast, at receivers that know the sender and
// at others. docs/protocol §27.9.
func TestForgedCounterBlocksForFiveMinutes(t *testing.T) {
	set := testSet(t, 1)
	const behind, skew = 3, 300 // seconds: the sender's clock, and skew
	longest := 0
	for _, index := range []uint32{0, unicastIndex} {
		for _, first := range []bool{false, true} {
			for _, counter := range []uint32{0, 1, 30, windowPackets - 1, 5 * windowPackets, maxCounter - 1, maxCounter} {
				for _, off := range []int{0, 100, skew, -100, -skew, skew + 1, 86400, -(1<<31 - 1), 1 << 30} {
					name := fmt.Sprintf("index %d, before the first %v, counter %d, %v s off", index, first, counter, off)
					o, s := testOpener(t, set), newSealer(index, rand.Reader)
					now := base
					o.began = now
					next := func() []byte {
						now = now.Add(time.Second)
						o.begin(set, now, 0)
						if err := s.begin(set, now.Add(-behind*time.Second), 1); err != nil {
							t.Fatal(err)
						}
						p := make([]byte, 1+Overhead)
						s.seal(p, []byte{1})
						return p
					}
					good := next()
					if !first && o.open(bytes.Clone(good), index, 0) != accepted {
						t.Fatalf("%s: the first is not accepted", name)
					}
					v := o.open(as(t, set, good, index, counter, now.Add(time.Duration(off)*time.Second)), index, 0)
					if (v == stale) != (max(off, -off) > skew) {
						t.Fatalf("%s: verdict %d, want stale: %v", name, v, max(off, -off) > skew)
					}
					refused, last := 0, 0
					for i := range 400 {
						if o.open(next(), index, 0) != accepted {
							refused, last = refused+1, i+1
						}
					}
					want := 1 // the packet with that counter
					if v == accepted && counter >= windowPackets {
						want = max(off+behind, quietFor) + 1
					}
					if refused > want || last > skew+behind+1 {
						t.Errorf("%s: %d packets are refused, the last after %d s, want at most %d and %d s", name, refused, last, want, skew+behind+1)
					}
					longest = max(longest, last)
				}
			}
		}
	}
	if longest < skew { // as docs/security.md says
		t.Errorf("%d s at most", longest)
	}
}

// Invented senders of one host fill only its share, also with a future key. docs/protocol §27.10.
func TestHostHasAShare(t *testing.T) {
	cfg := Config{MaxSenders: 100}.withDefaults()
	o, now, set := newOpener(&cfg), time.Now(), testSet(t, 1, 2)
	from := ""
	o.from = func() string { return from }
	o.begin(set, now, 0)
	for _, id := range []KeyID{1, 2} {
		fill := func(address func(i int) string) (n int) {
			for i := range 500 {
				from = address(i)
				if v := o.open(one(t, testSet(t, id), now), 0, 0); v == accepted {
					n++
				} else if v != deferred {
					t.Fatalf("verdict %d, want accepted or deferred", v)
				}
			}
			return n
		}
		if n := fill(func(i int) string { return fmt.Sprintf("10.0.0.66:%d", i) }); n != 50 {
			t.Errorf("key %d: %d of 100 senders are the attacker's, want 50", id, n)
		}
		for host := range 3 {
			from = fmt.Sprintf("10.0.0.%d:4711", host)
			if v := o.open(one(t, testSet(t, id), now), 0, 0); v != accepted {
				t.Errorf("key %d: a new sender of host %d: verdict %d, want accepted", id, host, v)
			}
		}
	}
	if n := len(o.senders.all); n > 2*cfg.MaxSenders || n != o.senders.of[1]+o.senders.of[2] {
		t.Errorf("%d senders, by key %v, want at most %d, and the sum of keys 1 and 2", n, o.senders.of, 2*cfg.MaxSenders)
	}
	later := now.Add(time.Hour)
	o.began = now
	o.begin(set, later, 0)
	if o.senders.room(1, owner{}, o.elapsed); len(o.senders.all)+len(o.senders.share) != 0 {
		t.Errorf("%d senders and %d shares are left after an hour, want none", len(o.senders.all), len(o.senders.share))
	}
}

// With signed packets, an attacker without a valid signature never becomes a known sender, however many it invents, and
// uses up no counter. Proven senders are accepted whatever else arrives. This layer then does not detect repeats.
// docs/protocol §27.6, §27.10.
func TestOnlyProvenSendersAreKnown(t *testing.T) {
	set, now := testSet(t, 1), time.Now()
	cfg := Config{Proven: true, MaxSenders: 200}.withDefaults()
	o, s := newOpener(&cfg), newSealer(0, rand.Reader)
	o.begin(set, now, 0)
	next := func() []byte {
		s.begin(set, now, 1)
		p := make([]byte, 1+Overhead)
		s.seal(p, []byte{1})
		return p
	}
	good := next()
	if v := o.open(bytes.Clone(good), 0, 0); v != accepted {
		t.Fatalf("verdict %d, want accepted", v)
	}
	o.proven(header(good), 7)
	got := make(map[verdict]int)
	for range trialsAtOnce + 1000 {
		got[o.open(one(t, set, now), 0, 0)]++
	}
	if len(o.senders.all) != 1 || got[accepted] != trialsAtOnce-1 || len(o.candidates.all) > maxCandidates {
		t.Errorf("%d senders are known, %d candidates, verdicts %v, want 1 sender and %d accepted", len(o.senders.all), len(o.candidates.all), got, trialsAtOnce-1)
	}
	if v := o.open(as(t, set, good, 0, maxCounter, now), 0, 0); v != accepted { // only its signature is invalid
		t.Errorf("with the name of a sender: verdict %d, want accepted", v)
	}
	for i := range 100 {
		if v := o.open(next(), 0, 0); v != accepted {
			t.Fatalf("packet %d of a known sender: verdict %d, want accepted", i, v)
		}
	}
	// Each signer has a share, and no proven sender is removed.
	o.begin(set, now.Add(time.Minute), 0)
	for _, c := range []struct {
		signer     uint32
		sent, want int
	}{{66, 300, 100}, {8, 1, 1}} {
		before := len(o.senders.all)
		for range c.sent {
			p := one(t, set, now)
			if v := o.open(p, 0, 0); v != accepted {
				t.Fatalf("verdict %d, want accepted", v)
			}
			o.proven(header(p), c.signer)
		}
		if n := len(o.senders.all) - before; n != c.want {
			t.Errorf("%d of %d senders of signer %d are known, want %d", n, c.sent, c.signer, c.want)
		}
	}
	for range 20 {
		now = now.Add(provenFor / 2 * time.Second)
		o.begin(set, now, 0)
		p := next()
		if v := o.open(p, 0, 0); v != accepted {
			t.Fatalf("verdict %d, want accepted", v)
		}
		o.proven(header(p), 7)
		o.senders.room(1, owner{}, o.elapsed)
	}
	if len(o.senders.all) != 1 {
		t.Errorf("%d senders are known after a while, want 1", len(o.senders.all))
	}
}

func TestHostOf(t *testing.T) {
	for address, want := range map[string]string{
		"": "", "10.0.0.7:4711": "10.0.0.7", "[fe80::1]:4711": "[fe80::1]", "[fe80::1]:qp17": "[fe80::1]",
		"mem://x#7": "mem://x#7", "shm://x#4711.9f3c": "shm://x#4711.9f3c", ":7": ":7", "host": "host",
	} {
		if got := hostOf(address); got != want {
			t.Errorf("host of %q is %q, want %q", address, got, want)
		}
	}
}
