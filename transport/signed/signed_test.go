package signed

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// Each packet of a train proves itself, whatever else is lost, and in whichever order they come; none does
// with any bit changed. docs/protocol.md §29.2, §29.3, §29.4.
func TestEachPacketProvesItself(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 8, 9, 31, 33, 44, 64, 65, 127, 128} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRig(t)
			sent := r.train(t, n)
			if len(sent) != n {
				t.Fatalf("%d packets", len(sent))
			}
			all := r.verifier(t)
			for _, i := range rand.Perm(n) {
				is(t, "alone", r.verifier(t), sent[i], Taken)
				is(t, "with others", all, sent[i], Taken)
				is(t, "twice", all, sent[i], Replayed)
				s, err := wire.ParseSigned(sent[i])
				if err != nil || s.Depth() != depthOf(n) || s.Packet[wire.HeaderLen] != byte(i) {
					t.Errorf("packet %d: depth %d, %v", i, s.Depth(), err)
				}
				if !bytes.Equal(wire.Content(sent[i]), s.Packet) {
					t.Error("its content is another")
				}
			}
			b := sent[n/2]
			for range 300 {
				x := bytes.Clone(b)
				x[rand.IntN(len(x))] ^= 1 << rand.IntN(8)
				if _, got := r.verifier(t).Check(x, 0); got == Taken {
					t.Fatalf("taken with a bit changed: %x, was %x", x, b)
				}
			}
			all = r.verifier(t)
			for i := range n {
				if i != n/2 {
					is(t, "another of the train", all, sent[i], Taken)
				}
			}
			for range 300 { // also where its train is known: but in the part of the path that is known
				x := bytes.Clone(b)
				i := rand.IntN(len(x))
				if x[i] ^= 1 << rand.IntN(8); i >= wire.SignedLen && i < wire.SignedHead(depthOf(n)) {
					continue
				}
				if _, got := all.Check(x, 0); got == Taken {
					t.Fatalf("taken with a bit changed: %x, was %x", x, b)
				}
			}
			for i := range b {
				if _, got := r.verifier(t).Check(b[:i], 0); got == Taken {
					t.Fatalf("taken when cut to %d bytes", i)
				}
			}
		})
	}
}

// A packet comes once by each leg: it is signed which one of which train it is. docs/protocol.md §29.6.
func TestPacketComesOnce(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	for _, b := range r.train(t, 128) {
		for leg := range uint8(transport.MaxLegs) {
			for _, want := range []Verdict{Taken, Replayed} {
				if _, got := v.Check(b, leg); got != want {
					t.Fatalf("leg %d: verdict %d, want %d", leg, got, want)
				}
			}
		}
	}
}

// A train whose signature has verified is not verified again: what says to be of it costs no signature,
// be it true or not.
func TestTrainIsVerifiedOnce(t *testing.T) {
	r := newRig(t)
	sent := r.train(t, 40)
	v := r.verifier(t)
	is(t, "the first", v, sent[17], Taken)
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
			is(t, "of the train", v, sent[i], Taken)
		}
		is(t, "it again", v, sent[i], Replayed)
	}
	is(t, "of the next train", v, r.train(t, 2)[0], Deferred)
}

// Times are taken modulo 2^32 seconds. docs/protocol.md §29.6.
func TestTimesWrap(t *testing.T) {
	r := newRig(t)
	r.add(time.Unix(1<<32, 0).Sub(r.now) - time.Second)
	before := r.train(t, 1)[0]
	r.add(2 * time.Second)
	is(t, "a second before 2^32", r.verifier(t), before, Taken)
	is(t, "a second after", r.verifier(t), r.train(t, 1)[0], Taken)
}

// The checks of a packet, in their order. docs/protocol.md §29.6.
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
		{"good", good, Taken},
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

// Two keys are trusted: neither signs in a stream of the other. docs/protocol.md §29.1.
func TestKeyOfAnotherStream(t *testing.T) {
	f, c := newFabric(), newClock()
	s, err := NewSigner(testKey(2), nil, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	insider := &rig{c, f, f.sender(t, s), 0}
	v := NewVerifier(Static{testTrust(t, 1, 2)})
	v.Begin(c.now)
	is(t, "in its own stream", v, insider.send(t, content(PublisherID(testKey(2), 9), 5, 10))[0], Taken)
	is(t, "in another's", v, insider.send(t, content(PublisherID(testKey(1), 9), 5, 10))[0], Forged)
}

// What is so old that it may have come is refused without a look at its signature; streams count
// by themselves. docs/protocol.md §29.6.
func TestOldTrains(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	var trains [][][]byte
	for range recentTrains + 5 {
		trains = append(trains, r.train(t, 2))
	}
	for _, i := range rand.Perm(recentTrains)[:recentTrains/2] {
		is(t, "in any order", v, trains[i][0], Taken)
	}
	for i, tr := range trains {
		if i >= 5 {
			is(t, "later", v, tr[1], Taken)
		}
	}
	v.fails.left = 0
	for i := range 5 {
		is(t, "too old", v, trains[i][1], Replayed)
	}
	v = r.verifier(t)
	is(t, "of a stream", v, r.send(t, content(r.id, 5, 10))[0], Taken)
	first := newRig(t)
	is(t, "of an earlier counter in another epoch", v, first.send(t, content(r.id, 6, 10))[0], Taken)
	is(t, "in the same", v, newRig(t).train(t, 1)[0], Replayed)
}

// Packets whose signatures do not verify cost so much time and no more, and take it from the stream
// that they name; those that cost nothing do not count. docs/protocol.md §29.7.
func TestFlood(t *testing.T) {
	r := newRig(t)
	v := NewVerifier(Static{testTrust(t, 1, 2)})
	v.Begin(r.now)
	is(t, "the stream", v, r.train(t, 1)[0], Taken)
	next := r.train(t, 1)[0]
	flood := func(b []byte) (forged int) {
		for {
			x := bytes.Clone(b)
			binary.LittleEndian.PutUint64(x[30:], rand.Uint64())
			binary.LittleEndian.PutUint64(x[8:], 2+rand.Uint64N(30)) // a counter to come
			switch _, got := v.Check(x, 0); got {
			case Forged:
				forged++
			case Deferred:
				return forged
			default:
				t.Fatalf("verdict %d", got)
			}
		}
	}
	if n, want := flood(next), int(streamFails*atOnce.Seconds()); n != want {
		t.Errorf("%d signatures were looked at, want %d", n, want)
	}
	is(t, "of the stream", v, next, Deferred)
	stranger := content(PublisherID(testKey(2), 1), 1, 10)
	s, err := NewSigner(testKey(2), nil, r.Now)
	if err != nil {
		t.Fatal(err)
	}
	two := &rig{r.clock, newFabric(), nil, 0}
	two.tx = two.f.sender(t, s)
	is(t, "of another stream", v, two.send(t, stranger)[0], Taken)
	if n, want := flood(r.send(t, content(r.id, 77, 10))[0]), int(strangerFails*atOnce.Seconds()); n != want {
		t.Errorf("of streams that are not known %d signatures were looked at, want %d", n, want)
	}
	is(t, "of a stream that is known", v, two.send(t, stranger)[0], Taken)
	r.add(time.Millisecond)
	v.Begin(r.now)
	is(t, "a millisecond later", v, next, Taken)
}

// A flood in the names of two streams uses up what may be looked at of all that fails: others are verified all the
// same, and have a share when they come to be used in it, too. docs/protocol.md §29.7.
func TestFloodInSeveralNames(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	stream := func(epoch uint64) []byte { return r.send(t, content(r.id, epoch, 10))[0] }
	for epoch := range uint64(10) {
		is(t, "the stream", v, stream(epoch), Taken)
	}
	looked := 0
	for range 20 * streamFails {
		for epoch := range uint64(2) {
			x := stream(epoch)
			x[30]++
			if _, got := v.Check(x, 0); got == Forged {
				looked++
			}
		}
		if v.fails.left < 1 {
			break
		}
	}
	if want := int(failsPerSecond * atOnce.Seconds()); looked != want {
		t.Errorf("%d signatures were looked at, want %d", looked, want)
	}
	is(t, "in the flood", v, stream(0), Deferred)
	for epoch := uint64(2); epoch < 10; epoch++ {
		is(t, "of another stream", v, stream(epoch), Taken)
	}
	x := stream(2)
	x[30]++
	is(t, "the first that fails", v, x, Forged)
	is(t, "is then one of the flood", v, stream(2), Deferred)
	r.add(cleanAfter)
	v.Begin(r.now)
	for epoch := range uint64(10) {
		is(t, "when it is over", v, stream(epoch), Taken)
	}
}

// Who is trusted, for whatever, cannot take more streams or more of the time than leaves others a share.
// docs/protocol.md §29.6, §29.7.
func TestShares(t *testing.T) {
	r := newRig(t)
	v := NewVerifier(Static{testTrust(t, 1, 2)})
	v.streams.most = 100
	s, err := NewSigner(testKey(2), new(counted), r.Now)
	if err != nil {
		t.Fatal(err)
	}
	greedy := &rig{r.clock, r.f, r.f.sender(t, s), 0}
	first := PublisherID(testKey(2), 0)
	begin := func() {
		r.add(time.Second)
		v.Begin(r.now)
	}
	takes := func(tx *rig, id uint64) (n int) {
		for epoch := uint64(1); ; epoch++ {
			_, got := v.Check(tx.send(t, content(id, epoch, 10))[0], 0)
			if got != Taken {
				return n
			}
			n++
		}
	}
	begin()
	if n := takes(greedy, first); n != 50 {
		t.Errorf("one key has %d of 100 streams, want half", n)
	}
	if n := takes(r, r.id); n != 25 {
		t.Errorf("another has %d of the 50 that are left, want half", n)
	}
	begin()
	n := 0
	for got := Taken; got == Taken; n++ {
		_, got = v.Check(greedy.send(t, content(first, 1, 10))[0], 0)
	}
	if want := int((keyWorkPerSecond + workPerSecond) * atOnce.Seconds()); n-1 != want {
		t.Errorf("%d trains of one key were verified at once, want %d", n-1, want)
	}
	for range int(keyWorkPerSecond * atOnce.Seconds()) {
		is(t, "of another key", v, r.send(t, content(r.id, 1, 10))[0], Taken)
	}
	is(t, "beyond its share", v, r.send(t, content(r.id, 1, 10))[0], Deferred)
}

// A packet of a train that is not the newest any more, of which the tree is forgotten, proves itself by the root.
func TestForgottenTree(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	var trains [][][]byte
	for range recentTrees + 2 {
		trains = append(trains, r.train(t, 5))
		is(t, "the first", v, trains[len(trains)-1][0], Taken)
	}
	v.fails.left, v.streams.last.failed = 0, v.now // another signature would be deferred
	for i, tr := range trains {
		is(t, "another", v, tr[3], Taken)
		x := bytes.Clone(tr[4])
		x[len(x)-1]++
		is(t, fmt.Sprint("forged, of train ", i), v, x, Forged)
	}
}

// Who is not trusted any more is refused from the next packet on, and taken again when he is.
// docs/protocol.md §29.7.
func TestTrustChanges(t *testing.T) {
	r := newRig(t)
	trust := &changing{testTrust(t, 1)}
	v := NewVerifier(trust)
	check := func(what string, changed bool, want Verdict) {
		t.Helper()
		if got := v.Begin(r.now); got != changed {
			t.Errorf("%s: changed %v", what, got)
		}
		for _, b := range r.train(t, 3) {
			is(t, what, v, b, want)
		}
	}
	check("at first", true, Taken)
	tr := r.train(t, 2)
	is(t, "before", v, tr[0], Taken)
	trust.set = testTrust(t, 2)
	check("revoked", true, Untrusted)
	is(t, "of a train that has verified", v, tr[1], Untrusted)
	trust.set = nil
	check("nobody", true, Untrusted)
	trust.set = testTrust(t, 1, 2)
	check("again", true, Taken)
	check("as before", false, Taken)
}

// Streams that are not heard are forgotten, those that are are not; when there are too many others wait.
func TestManyStreams(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	v.streams.most = 6 // one key may have half of them
	stream := func(epoch uint64) []byte { return r.send(t, content(r.id, epoch, 10))[0] }
	for epoch := range uint64(3) {
		is(t, "one more", v, stream(epoch), Taken)
	}
	is(t, "too many", v, stream(3), Deferred)
	r.add(9 * time.Minute)
	v.Begin(r.now)
	is(t, "still heard", v, stream(2), Taken)
	is(t, "too many", v, stream(3), Deferred)
	r.add(90 * time.Second)
	v.Begin(r.now)
	is(t, "when two were forgotten", v, stream(3), Taken)
	if v.Streams() != 2 {
		t.Errorf("%d streams", v.Streams())
	}
}

// What the fabric does not take is signed anew when it comes again, and all sizes of trains and packets
// are cut into trains that the fabric carries.
func TestSend(t *testing.T) {
	r := newRig(t)
	v := r.verifier(t)
	var packets [][]byte
	for i := range 150 {
		packets = append(packets, content(r.id, 5, 1240))
		packets[i][wire.HeaderLen] = byte(i)
	}
	out := outbound(packets...)
	r.f.sent, r.f.take = [][]byte{}, 70
	n, err := r.tx.Send(out)
	if n != 70 || err != transport.ErrBusy || r.tx.Completed() != 70 {
		t.Fatalf("took %d, %v", n, err)
	}
	r.f.take = -1
	rest := transport.Outbound{Data: out.Data[n*out.Stride:], Stride: out.Stride, Count: 150 - n, Lens: out.Lens[n:]}
	if n, err = r.tx.Send(&rest); n != 80 || err != nil {
		t.Fatalf("took %d, %v", n, err)
	}
	for i, b := range r.f.sent {
		is(t, "sent", v, b, Taken)
		if p := wire.Content(b); !bytes.Equal(p, packets[i]) || len(b) > r.f.caps.MaxPacket {
			t.Fatalf("packet %d has %d bytes", i, len(b))
		}
	}
	for what, out := range map[string]*transport.Outbound{
		"too large": outbound(content(r.id, 5, 1241)),
		"empty":     {Data: []byte{1}, Stride: 1, Count: 1, Lens: []uint16{0}},
		"no data":   {Stride: 10, Count: 2, Lens: []uint16{10, 10}},
	} {
		if n, err := r.tx.Send(out); n != 0 || err == nil {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	if err := r.tx.Close(); err != nil {
		t.Error(err)
	}
	if n, err := r.tx.Send(outbound(packets[0])); n != 0 || err == nil {
		t.Error("sent when closed")
	}
}

// Nothing is allocated for a packet; for a train no more than the signature takes.
func TestAllocations(t *testing.T) {
	r := newRig(t)
	var packets [][]byte
	for range 40 {
		packets = append(packets, content(r.id, 5, 1000))
	}
	out := outbound(packets...)
	r.tx.Send(out)
	if n := testing.AllocsPerRun(100, func() { r.tx.Send(out) }); n > 2 {
		t.Errorf("%v allocations to send a train", n)
	}
	v := r.verifier(t)
	var trains [][][]byte
	for range 300 {
		trains = append(trains, r.train(t, 40))
	}
	i := 0
	check := func() {
		for _, b := range trains[i] {
			is(t, "sent", v, b, Taken)
		}
		i++
	}
	for range recentTrains {
		check() // each of the trains that are remembered has its tree then
	}
	if n := testing.AllocsPerRun(100, check); n > 2 {
		t.Errorf("%v allocations to verify a train", n)
	}
}

// Whatever comes is refused, but what was signed.
func FuzzCheck(f *testing.F) {
	r := newRig(f)
	good := r.train(f, 5)
	for _, b := range good {
		f.Add(b)
		f.Add(wire.Content(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := NewVerifier(Static{testTrust(t, 1)})
		v.Begin(r.now)
		if _, got := v.Check(good[0], 0); got != Taken {
			t.Fatal("the good one")
		}
		_, got := v.Check(b, 0)
		if got != Taken {
			return
		}
		for _, g := range good {
			if bytes.Equal(wire.Content(g), wire.Content(b)) {
				return
			}
		}
		t.Errorf("taken: %x", b)
	})
}

func BenchmarkSend(b *testing.B) {
	for _, n := range []int{1, 8, 44, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b)
			r.f.sent = nil
			var packets [][]byte
			for range n {
				packets = append(packets, content(r.id, 5, 1240))
			}
			out := outbound(packets...)
			b.ReportAllocs()
			for b.Loop() {
				r.tx.Send(out)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/packet")
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{1, 8, 44, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b)
			var packets [][]byte
			for range n {
				packets = append(packets, content(r.id, 5, 1240))
			}
			var trains [][][]byte
			for range recentTrains {
				trains = append(trains, r.send(b, packets...))
			}
			v := r.verifier(b)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i%recentTrains == 0 {
					clear(v.streams.all)
					v.streams.last = nil
					v.work.left = recentTrains // or they are deferred
				}
				for _, p := range trains[i%recentTrains] {
					v.Check(p, 0)
				}
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/packet")
		})
	}
}

// What hostile packets cost: docs/security.md.
func BenchmarkHostile(b *testing.B) {
	r := newRig(b)
	good := r.send(b, content(r.id, 5, 1240), content(r.id, 5, 1240))
	next := r.send(b, content(r.id, 5, 1240))[0]
	change := func(p []byte, f func(b []byte)) []byte {
		p = bytes.Clone(p)
		f(p)
		return p
	}
	for _, c := range []struct {
		name string
		p    []byte
		free bool // of the budget
	}{
		{"unsigned", wire.Content(good[0]), false},
		{"untrusted", change(good[0], func(b []byte) { b[wire.SignedHead(1)+atPublisher+5]++ }), false},
		{"of a train that has verified", change(good[0], func(b []byte) { b[len(b)-1]++ }), false},
		{"played back", good[1], false},
		{"made up", change(next, func(b []byte) { b[30]++ }), true},
		{"made up, in a flood", change(next, func(b []byte) { b[30]++ }), false},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := r.verifier(b)
			v.Check(good[1], 0)
			for b.Loop() {
				if c.free {
					v.fails.left, v.streams.last.fails.left = 100, 100
				}
				v.Check(c.p, 0)
			}
		})
	}
}

// The raw cost of a signature, to compare.
func BenchmarkEd25519(b *testing.B) {
	key, msg := testKey(1), make([]byte, 53)
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ed25519.Sign(key, msg)
		}
	})
	signature := ed25519.Sign(key, msg)
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ed25519.Verify(publicOf(key), msg, signature)
		}
	})
}
