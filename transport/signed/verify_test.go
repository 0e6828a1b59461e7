package signed

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// Each packet of a train can be verified by itself, whatever else is lost, and in any order, but not with any bit
// changed. docs/protocol §29.2, §29.3, §29.4.
func TestEachPacketVerifiesAlone(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 8, 9, 31, 33, 44, 64, 65, 127, 128} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRig(t)
			sent := r.train(t, n)
			if len(sent) != n {
				t.Fatalf("%d packets sent, want %d", len(sent), n)
			}
			all := r.verifier(t)
			for _, i := range rand.Perm(n) {
				is(t, "alone", r.verifier(t), sent[i], Accepted)
				is(t, "with others", all, sent[i], Accepted)
				is(t, "twice", all, sent[i], Replayed)
				s, err := wire.ParseSigned(sent[i])
				if err != nil || s.Depth() != depthOf(n) || s.Packet[wire.HeaderLen] != byte(i) {
					t.Errorf("packet %d: depth %d, error %v, want %d and its number", i, s.Depth(), err, depthOf(n))
				}
				if !bytes.Equal(wire.Content(sent[i]), s.Packet) {
					t.Error("its content differs")
				}
			}
			b := sent[n/2]
			for range 300 {
				x := bytes.Clone(b)
				x[rand.IntN(len(x))] ^= 1 << rand.IntN(8)
				if _, got := r.verifier(t).Check(x, 0); got == Accepted {
					t.Fatalf("accepted with a bit changed: %x, was %x", x, b)
				}
			}
			all = r.verifier(t)
			for i := range n {
				if i != n/2 {
					is(t, "another of the train", all, sent[i], Accepted)
				}
			}
			for range 300 { // also when its train is known, except in the known part of the path
				x := bytes.Clone(b)
				i := rand.IntN(len(x))
				if x[i] ^= 1 << rand.IntN(8); i >= wire.SignedLen && i < wire.SignedHead(depthOf(n)) {
					continue
				}
				if _, got := all.Check(x, 0); got == Accepted {
					t.Fatalf("accepted with a bit changed: %x, was %x", x, b)
				}
			}
			for i := range b {
				if _, got := r.verifier(t).Check(b[:i], 0); got == Accepted {
					t.Fatalf("accepted when truncated to %d bytes", i)
				}
			}
		})
	}
}

// A packet is accepted once on each leg, because its train and its place in the train are signed. docs/protocol §29.6.
func TestPacketIsAcceptedOnce(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	for _, b := range r.train(t, 128) {
		for leg := range uint8(transport.MaxLegs) {
			for _, want := range []Verdict{Accepted, Replayed} {
				if _, got := v.Check(b, leg); got != want {
					t.Fatalf("leg %d: verdict %d, want %d", leg, got, want)
				}
			}
		}
	}
}

// A train's signature is verified only once: a packet that claims to belong to a verified train costs no signature
// check, whether valid or not.
func TestTrainIsVerifiedOnce(t *testing.T) {
	r := newRig(t)
	sent := r.train(t, 40)
	v := r.verifier(t)
	is(t, "the first", v, sent[17], Accepted)
	v.fails.left, v.streams.last.failed = 0, v.now // another signature would be deferred
	for i := range sent {
		x := bytes.Clone(sent[i])
		x[len(x)-1]++
		if i != 17 {
			is(t, "forged", v, x, Forged)
		}
		x = bytes.Clone(sent[i])
		x[30]++
		is(t, "with another signature", v, x, Forged)
		if i != 17 {
			is(t, "of the same train", v, sent[i], Accepted)
		}
		is(t, "repeated", v, sent[i], Replayed)
	}
	is(t, "of the next train", v, r.train(t, 2)[0], Deferred)
}

// Times are taken modulo 2^32 seconds. docs/protocol §29.6.
func TestTimesWrap(t *testing.T) {
	r := newRig(t)
	r.add(time.Unix(1<<32, 0).Sub(r.now) - time.Second)
	before := r.train(t, 1)[0]
	r.add(2 * time.Second)
	is(t, "a second before 2^32", r.verifier(t), before, Accepted)
	is(t, "a second after", r.verifier(t), r.train(t, 1)[0], Accepted)
}

// The checks of a packet, in their order. docs/protocol §29.6.
func TestChecks(t *testing.T) {
	r := newRig(t)
	good := r.train(t, 3)[1]
	change := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	r.add(-6 * time.Minute)
	early := r.train(t, 1)[0]
	r.add(12 * time.Minute)
	late := r.train(t, 1)[0]
	r.add(-6 * time.Minute)
	packet := wire.Content(good)
	other := PublisherID(testKey(2), 7)
	for _, c := range []struct {
		name string
		b    []byte
		want Verdict
	}{
		{"good", good, Accepted},
		{"nothing", nil, Unsigned},
		{"not signed", packet, Unsigned},
		{"sealed", change(func(b []byte) { b[1] = 's' }), Unsigned},
		{"another version", change(func(b []byte) { b[2] = 2 }), Malformed},
		{"node 0", change(func(b []byte) { b[3] = 0 }), Malformed},
		{"cut", good[:wire.SignedHead(2)+31], Malformed},
		{"of a key that is not trusted", r.send(t, content(other, 5, 10))[0], Untrusted},
		{"of no key", r.send(t, content(7, 5, 10))[0], Untrusted},
		{"early", early, Stale},
		{"late", late, Stale},
		{"another node", change(func(b []byte) { b[3] ^= 1 }), Forged},
		{"another time", change(func(b []byte) { b[4]++ }), Forged},
		{"another counter", change(func(b []byte) { b[8]++ }), Forged},
		{"another salt", change(func(b []byte) { b[16]++ }), Forged},
		{"another signature", change(func(b []byte) { b[24]++ }), Forged},
		{"another path", change(func(b []byte) { b[88]++ }), Forged},
		{"another content", change(func(b []byte) { b[len(b)-1]++ }), Forged},
		{"another epoch", change(func(b []byte) { b[len(b)-len(packet)+atEpoch]++ }), Forged},
		{"another group", change(func(b []byte) { b[len(b)-len(packet)+atTag]++ }), Forged},
		{"another publisher of the key", change(func(b []byte) { b[len(b)-len(packet)+atPublisher]++ }), Forged},
		{"longer", append(bytes.Clone(good), 0), Forged},
	} {
		is(t, c.name, r.verifier(t), c.b, c.want)
	}
}

// With two trusted keys, neither can sign for a stream of the other. docs/protocol §29.1.
func TestKeyOfAnotherStream(t *testing.T) {
	f, c := newFabric(), newClock()
	s, err := NewSigner(testKey(2), nil, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	insider := &rig{c, f, f.sender(t, s), 0}
	v := NewVerifier(Static{testTrust(t, 1, 2)})
	v.Begin(c.now, 0)
	is(t, "in its own stream", v, insider.send(t, content(PublisherID(testKey(2), 9), 5, 10))[0], Accepted)
	is(t, "in another's", v, insider.send(t, content(PublisherID(testKey(1), 9), 5, 10))[0], Forged)
}

// Packets of trains too old to be remembered are refused without a signature check, separately for each stream.
// docs/protocol §29.6.
func TestOldTrains(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	var trains [][][]byte
	for range recentTrains + 5 {
		trains = append(trains, r.train(t, 2))
	}
	for _, i := range rand.Perm(recentTrains)[:recentTrains/2] {
		is(t, "in any order", v, trains[i][0], Accepted)
	}
	for i, tr := range trains {
		if i >= 5 {
			is(t, "later", v, tr[1], Accepted)
		}
	}
	v.fails.left = 0
	for i := range 5 {
		is(t, "too old", v, trains[i][1], Replayed)
	}
	v = r.verifier(t)
	is(t, "of a stream", v, r.send(t, content(r.id, 5, 10))[0], Accepted)
	first := newRig(t)
	is(t, "of an earlier counter in another epoch", v, first.send(t, content(r.id, 6, 10))[0], Accepted)
	is(t, "in the same", v, newRig(t).train(t, 1)[0], Replayed)
}

// A packet of an older train, whose tree is no longer stored, is verified by its root.
func TestTrainWithoutTree(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	var trains [][][]byte
	for range recentTrees + 2 {
		trains = append(trains, r.train(t, 5))
		is(t, "the first", v, trains[len(trains)-1][0], Accepted)
	}
	v.fails.left, v.streams.last.failed = 0, v.now // another signature would be deferred
	for i, tr := range trains {
		is(t, "another", v, tr[3], Accepted)
		x := bytes.Clone(tr[4])
		x[len(x)-1]++
		is(t, fmt.Sprint("forged, of train ", i), v, x, Forged)
	}
}

// Any input is refused, except signed packets.
func FuzzCheck(f *testing.F) {
	r := newRig(f)
	good := r.train(f, 5)
	for _, b := range good {
		f.Add(b)
		f.Add(wire.Content(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := NewVerifier(Static{testTrust(t, 1)})
		v.Begin(r.now, 0)
		if _, got := v.Check(good[0], 0); got != Accepted {
			t.Fatal("the valid packet is not accepted")
		}
		_, got := v.Check(b, 0)
		if got != Accepted {
			return
		}
		for _, g := range good {
			if bytes.Equal(wire.Content(g), wire.Content(b)) {
				return
			}
		}
		t.Errorf("accepted %x, want it refused", b)
	})
}

// Packets that may have been unread for long are judged by their earliest possible time of arrival: those that were
// fresh then are accepted once, those that were too old are not. docs/protocol §29.6.
func TestUnread(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	v.streams.limit = 2
	old := r.train(t, 1)
	r.add(6 * time.Minute)
	v.Begin(r.now, 0)
	train := r.train(t, 2)
	is(t, "immediately", v, train[0], Accepted)
	r.add(20 * time.Minute)
	v.Begin(r.now, 20*time.Minute)
	is(t, "too old before", v, old[0], Stale)
	is(t, "of a stream beyond the limit", v, r.send(t, content(r.id, 6, 10))[0], Deferred)
	is(t, "unread", v, train[1], Accepted)
	is(t, "accepted before", v, train[0], Replayed)
	v.Begin(r.now, 0)
	is(t, "after everything was read", v, train[1], Stale)
}
