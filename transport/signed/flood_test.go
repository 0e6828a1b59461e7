package signed

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Packets with invalid signatures cost a bounded amount of time, and use up the budget of the stream that they name.
// Packets refused without a signature check do not count. docs/protocol §29.7.
func TestFlood(t *testing.T) {
	r := newRig(t)
	v := NewVerifier(Static{testTrust(t, 1, 2)})
	v.Begin(r.now, 0)
	is(t, "the stream", v, r.train(t, 1)[0], Accepted)
	next := r.train(t, 1)[0]
	flood := func(b []byte) (forged int) {
		for {
			x := bytes.Clone(b)
			binary.LittleEndian.PutUint64(x[30:], rand.Uint64())
			binary.LittleEndian.PutUint64(x[8:], 2+rand.Uint64N(30)) // a future counter
			switch _, got := v.Check(x, 0); got {
			case Forged:
				forged++
			case Deferred:
				return forged
			default:
				t.Fatalf("verdict %d, want Forged or Deferred", got)
			}
		}
	}
	if n, want := flood(next), int(streamFails*atOnce.Seconds()); n != want {
		t.Errorf("%d signatures checked, want %d", n, want)
	}
	is(t, "of the stream", v, next, Deferred)
	unknown := content(PublisherID(testKey(2), 1), 1, 10)
	s, err := NewSigner(testKey(2), nil, r.Now)
	if err != nil {
		t.Fatal(err)
	}
	two := &rig{r.clock, newFabric(), nil, 0}
	two.tx = two.f.sender(t, s)
	is(t, "of another stream", v, two.send(t, unknown)[0], Accepted)
	if n, want := flood(r.send(t, content(r.id, 77, 10))[0]), int(unknownFails*atOnce.Seconds()); n != want {
		t.Errorf("of unknown streams %d signatures checked, want %d", n, want)
	}
	is(t, "of a known stream", v, two.send(t, unknown)[0], Accepted)
	r.add(time.Millisecond)
	v.Begin(r.now, 0)
	is(t, "a millisecond later", v, next, Accepted)
}

// A flood with the names of two streams uses up the budget for all failures. Other streams are still verified, and have
// their own budget when an attacker uses their names, too. docs/protocol §29.7.
func TestFloodWithSeveralNames(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	stream := func(epoch events.ID) []byte { return r.send(t, content(r.id, epoch, 10))[0] }
	for epoch := range events.ID(10) {
		is(t, "the stream", v, stream(epoch), Accepted)
	}
	verified := 0
	for range 20 * streamFails {
		for epoch := range events.ID(2) {
			x := stream(epoch)
			x[30]++
			if _, got := v.Check(x, 0); got == Forged {
				verified++
			}
		}
		if v.fails.left < 1 {
			break
		}
	}
	if want := int(failsPerSecond * atOnce.Seconds()); verified != want {
		t.Errorf("%d signatures checked, want %d", verified, want)
	}
	is(t, "during the flood", v, stream(0), Deferred)
	for epoch := events.ID(2); epoch < 10; epoch++ {
		is(t, "of another stream", v, stream(epoch), Accepted)
	}
	x := stream(2)
	x[30]++
	is(t, "the first failure", v, x, Forged)
	is(t, "then counts as part of the flood", v, stream(2), Deferred)
	r.add(cleanAfter)
	v.Begin(r.now, 0)
	for epoch := range events.ID(10) {
		is(t, "after the flood", v, stream(epoch), Accepted)
	}
}

// A trusted publisher, for any topics, can use only its share of the streams and of the time. docs/protocol §29.6,
// §29.7.
func TestShares(t *testing.T) {
	r := newRig(t)
	v := NewVerifier(Static{testTrust(t, 1, 2)})
	v.streams.limit = 100
	s, err := NewSigner(testKey(2), new(counted), r.Now)
	if err != nil {
		t.Fatal(err)
	}
	greedy := &rig{r.clock, r.f, r.f.sender(t, s), 0}
	first := PublisherID(testKey(2), 0)
	begin := func() {
		r.add(time.Second)
		v.Begin(r.now, 0)
	}
	accepts := func(tx *rig, id events.ID) (n int) {
		for epoch := events.ID(1); ; epoch++ {
			_, got := v.Check(tx.send(t, content(id, epoch, 10))[0], 0)
			if got != Accepted {
				return n
			}
			n++
		}
	}
	begin()
	if n := accepts(greedy, first); n != 50 {
		t.Errorf("one key has %d of 100 streams, want half", n)
	}
	if n := accepts(r, r.id); n != 25 {
		t.Errorf("another key has %d of the remaining 50, want half", n)
	}
	begin()
	n := 0
	for got := Accepted; got == Accepted; n++ {
		_, got = v.Check(greedy.send(t, content(first, 1, 10))[0], 0)
	}
	if want := int((keyWorkPerSecond + workPerSecond) * atOnce.Seconds()); n-1 != want {
		t.Errorf("%d trains of one key were verified immediately, want %d", n-1, want)
	}
	for range int(keyWorkPerSecond * atOnce.Seconds()) {
		is(t, "of another key", v, r.send(t, content(r.id, 1, 10))[0], Accepted)
	}
	is(t, "beyond its share", v, r.send(t, content(r.id, 1, 10))[0], Deferred)
}

// A publisher that is no longer trusted is refused from the next packet on, and accepted when it is trusted again.
// docs/protocol §29.7.
func TestTrustChanges(t *testing.T) {
	r := newRig(t)
	trust := &changing{testTrust(t, 1)}
	v := NewVerifier(trust)
	check := func(what string, changed bool, want Verdict) {
		t.Helper()
		if got := v.Begin(r.now, 0); got != changed {
			t.Errorf("%s: changed %v, want %v", what, got, changed)
		}
		for _, b := range r.train(t, 3) {
			is(t, what, v, b, want)
		}
	}
	check("at first", true, Accepted)
	tr := r.train(t, 2)
	is(t, "before", v, tr[0], Accepted)
	trust.set = testTrust(t, 2)
	check("revoked", true, Untrusted)
	is(t, "of a verified train", v, tr[1], Untrusted)
	trust.set = nil
	check("no key", true, Untrusted)
	trust.set = testTrust(t, 1, 2)
	check("again", true, Accepted)
	check("trusted again", false, Accepted)
}

// Silent streams are removed, active ones are not. When there are too many, new ones are deferred.
func TestManyStreams(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	v.streams.limit = 6 // one key may use half of them
	stream := func(epoch events.ID) []byte { return r.send(t, content(r.id, epoch, 10))[0] }
	for epoch := range events.ID(3) {
		is(t, "one more", v, stream(epoch), Accepted)
	}
	is(t, "too many", v, stream(3), Deferred)
	r.add(9 * time.Minute)
	v.Begin(r.now, 0)
	is(t, "a known stream", v, stream(2), Accepted)
	is(t, "too many", v, stream(3), Deferred)
	r.add(90 * time.Second)
	v.Begin(r.now, 0)
	is(t, "after two were removed", v, stream(3), Accepted)
	if v.Streams() != 2 {
		t.Errorf("%d streams, want 2", v.Streams())
	}
}
