package sealed

import (
	"bytes"
	"crypto/rand"
	"testing"
	"time"
)

// recording is the packets of an active sender to a group. An attacker without a key has recorded them, and replays
// them to a receiver that joins late.
type recording struct {
	t      *testing.T
	set    *Keyset
	s      *sealer
	now    time.Time
	apart  time.Duration // time between packets
	all    [][]byte
	o      *opener // of the receiver; nil: it has not joined yet
	oldest time.Duration
	played int // accepted replays
}

func newRecording(t *testing.T, packets int, apart time.Duration) *recording {
	set := testSet(t, 1)
	cfg := Config{Keys: Static{set}}.withDefaults()
	r := &recording{t: t, set: set, s: newSealer(0, rand.Reader), now: base, apart: apart, o: newOpener(&cfg)}
	for range packets {
		r.send()
	}
	return r
}

// send sends the next packet.
func (r *recording) send() []byte {
	r.now = r.now.Add(r.apart)
	if err := r.s.begin(r.set, r.now, 1); err != nil {
		r.t.Fatal(err)
	}
	p := make([]byte, 8+Overhead)
	r.s.seal(p, make([]byte, 8))
	r.all = append(r.all, bytes.Clone(p))
	return p
}

func (r *recording) open(p []byte) bool {
	r.o.begin(r.set, r.now, 0)
	return r.o.open(p, 0, 0) == accepted
}

// play replays packet i.
func (r *recording) play(i int) {
	if i < 0 || i >= len(r.all) {
		return
	}
	p := bytes.Clone(r.all[i])
	if age := r.now.Sub(time.Unix(int64(header(p).time()), 0)); r.open(p) {
		r.oldest = max(r.oldest, age)
		r.played++
	}
}

// A receiver that joins a sender's group, and first receives a replay of the last minutes, accepts everything that the
// sender sends, whatever is replayed in between, in any order. docs/protocol §27.9.
func TestReplayBlocksNoSender(t *testing.T) {
	const before = 40_000 // packets; the last 30,000 were sent in the last 5 minutes
	places := func(r *recording, at ...int) {
		for _, i := range at {
			r.play(i)
			r.play(i + 1)
		}
	}
	three := func(r *recording) { places(r, before-10_000, before-11_500, before-29_000) }
	for name, c := range map[string]struct {
		first func(r *recording)
		more  func(r *recording, i int) // after the sender's i-th packet, which is the last of r.all
	}{
		"one before all":          {func(r *recording) { r.play(before - 10_000) }, func(*recording, int) {}},
		"in order, one for each":  {func(r *recording) { r.play(before - 10_000) }, func(r *recording, i int) { r.play(before - 9_999 + i) }},
		"at three places in turn": {three, func(r *recording, i int) { r.play(before - []int{9_998, 11_498, 28_998}[i%3] + i/3) }},
		"at three places, sometimes": {three, func(r *recording, i int) {
			if i%15 == 0 {
				r.play(before - 9_998 + i/15)
			}
			if i%28 == 0 {
				r.play(before - 28_998 + i/28)
			}
		}},
		"the latest packet": {three, func(r *recording, i int) {
			r.play(len(r.all) - 1)
			r.play(before - 9_998 + i)
		}},
		"before the latest packet": {three, func(r *recording, i int) {
			r.play(len(r.all) - windowPackets + 1)
			r.play(len(r.all) - windowPackets/2)
		}},
		"everywhere": {three, func(r *recording, i int) {
			for k := range 80 {
				r.play(before - 29_000 + (i*80+k)*601%29_000)
			}
		}},
		"far apart, in turn": {three, func(r *recording, i int) { r.play(before - 20_000 + i%2*3_000 + i) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t, before, 10*time.Millisecond)
			c.first(r)
			if r.played == 0 {
				t.Fatal("no replay is accepted")
			}
			for i := range 5_000 {
				if !r.open(r.send()) {
					t.Fatalf("packet %d of the sender is refused", i)
				}
				c.more(r, i)
			}
			if r.oldest > DefaultSkew+time.Second {
				t.Errorf("a packet that is %v old is accepted, want at most %v", r.oldest, DefaultSkew+time.Second)
			}
			t.Logf("%d replays are accepted, the oldest %v old", r.played, r.oldest)
		})
	}
}

// Packets of an ended sender cannot be replayed for longer than 5 minutes, however slowly: here one packet every few
// seconds, in order, to a receiver that does not know the sender. docs/protocol §27.6.
func TestReplayEnds(t *testing.T) {
	for _, apart := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		r := newRecording(t, 2000, 100*time.Millisecond)
		r.now = r.now.Add(10 * time.Second)
		for i := 0; i < len(r.all); i += 10 {
			r.now = r.now.Add(apart)
			r.play(i)
		}
		if r.played == 0 || r.oldest > DefaultSkew+time.Second {
			t.Errorf("one every %v: %d are accepted, the oldest %v old, want some, at most %v old", apart, r.played, r.oldest, DefaultSkew+time.Second)
		}
	}
}

// A bus that replies to many publishers has one sender of replies, so that each receiver gets few of its counters, far
// apart. They are accepted.
func TestRepliesToMany(t *testing.T) {
	set := testSet(t, 1)
	s := newSealer(unicastIndex, rand.Reader)
	for _, many := range []int{1, 511, 600, 3 * windowPackets} {
		o := testOpener(t, set)
		o.begin(set, base, 0)
		if err := s.begin(set, base, 1); err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			p := make([]byte, 1+Overhead)
			s.seal(p, []byte{1})
			s.next += uint64(many - 1) // replies to others
			if v := o.open(p, unicastIndex, 0); v != accepted {
				t.Fatalf("reply %d to one of %d: verdict %d, want accepted", i, many, v)
			}
		}
	}
}

// A sender that is restored from an old copy of its memory, with its counters, is accepted again after some seconds,
// and none of its packets is accepted twice. docs/protocol §27.9.
func TestSenderIsRestoredFromCopy(t *testing.T) {
	for _, back := range []int{1, 10, 1000, 3 * windowPackets} {
		r := newRecording(t, 0, 10*time.Millisecond)
		for range 100 {
			r.open(r.send())
		}
		copied := *r.s
		for range back {
			if p := r.send(); len(r.all)%50 != 0 && !r.open(p) { // some are lost
				t.Fatal("not taken")
			}
		}
		r.now = r.now.Add(100 * time.Millisecond)
		r.s = &copied
		last := 0
		for i := range 1000 {
			if !r.open(r.send()) {
				last = i + 1
			}
		}
		if refusedAfter := time.Duration(last) * r.apart; refusedAfter > (quietFor+2)*time.Second {
			t.Errorf("restored to %d packets before: one is refused %v later, want at most %v", back, refusedAfter, (quietFor+2)*time.Second)
		}
		for i := range r.all {
			r.play(i)
		}
		if r.played > last+back/50+1 { // those that were refused or lost
			t.Errorf("restored to %d packets before: %d are accepted again, want at most %d", back, r.played, last+back/50+1)
		}
	}
}
