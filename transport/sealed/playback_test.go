package sealed

import (
	"bytes"
	"crypto/rand"
	"testing"
	"time"
)

// recording is what a sender of a group has sent, who sends on, and somebody without a key has heard, who plays it back to one that
// has begun to listen late.
type recording struct {
	t      *testing.T
	set    *Keyset
	s      *sealer
	now    time.Time
	apart  time.Duration // from packet to packet
	all    [][]byte
	o      *opener // of who listens; nil: not yet
	oldest time.Duration
	played int // that were taken
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
	r.o.begin(r.set, r.now)
	return r.o.open(p, 0, 0) == taken
}

// play plays packet i back.
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

// Who begins to listen to a sender, and first hears what somebody plays back of the last minutes, hears the sender itself after some packets,
// whatever is played back between them, and in whichever order. docs/protocol.md §27.9.
func TestPlaybackHoldsNobodyBack(t *testing.T) {
	const before = 40_000 // packets, of which the last 30,000 are of the last 5 minutes
	places := func(r *recording, at ...int) {
		for _, i := range at {
			r.play(i)
			r.play(i + 1)
		}
	}
	three := func(r *recording) { places(r, before-10_000, before-11_500, before-29_000) }
	for name, c := range map[string]struct {
		first func(r *recording)
		more  func(r *recording, i int) // behind the i-th packet of the sender's, which is the last of r.all
	}{
		"one before all":            {func(r *recording) { r.play(before - 10_000) }, func(*recording, int) {}},
		"in order, one for each":    {func(r *recording) { r.play(before - 10_000) }, func(r *recording, i int) { r.play(before - 9_999 + i) }},
		"at three places, by turns": {three, func(r *recording, i int) { r.play(before - []int{9_998, 11_498, 28_998}[i%3] + i/3) }},
		"at three places, now and then": {three, func(r *recording, i int) {
			if i%15 == 0 {
				r.play(before - 9_998 + i/15)
			}
			if i%28 == 0 {
				r.play(before - 28_998 + i/28)
			}
		}},
		"what was just refused": {three, func(r *recording, i int) {
			r.play(len(r.all) - 1)
			r.play(before - 9_998 + i)
		}},
		"from below what was just refused": {three, func(r *recording, i int) {
			r.play(len(r.all) - nearPackets + 1)
			r.play(len(r.all) - nearPackets/2)
		}},
		"everywhere": {three, func(r *recording, i int) {
			for k := range 80 {
				r.play(before - 29_000 + (i*80+k)*601%29_000)
			}
		}},
		"some far, by turns": {three, func(r *recording, i int) { r.play(before - 20_000 + i%2*3_000 + i) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t, before, 10*time.Millisecond)
			c.first(r)
			if r.played == 0 {
				t.Fatal("nothing that was played back is taken")
			}
			refused, last := 0, 0
			for i := range 5_000 {
				if !r.open(r.send()) {
					refused, last = refused+1, i
				}
				c.more(r, i)
			}
			if refused > leaveAfter+1 || last > 2*leaveAfter {
				t.Errorf("%d packets of the sender's own are refused, the last after %d", refused, last)
			}
			t.Logf("%d refused, %d played back are taken, the oldest of %v", refused, r.played, r.oldest)
		})
	}
}
