package sealed

import (
	"math"
	"testing"
)

// What one packet with a counter that is not believed does, and what those do that bear it out. docs/protocol.md §27.9.
func TestTrack(t *testing.T) {
	const far = 1 << 20
	type step struct {
		c    uint64
		want bool // taken
	}
	for name, steps := range map[string][]step{
		"one far ahead":            {{10, true}, {math.MaxUint32, false}, {11, true}, {12, true}},
		"one far behind":           {{far, true}, {10, false}, {far + 1, true}},
		"the same again":           {{10, true}, {far, false}, {far, false}, {11, true}},
		"two far from each other":  {{10, true}, {far, false}, {2 * far, false}, {11, true}},
		"one and the other":        {{10, true}, {far, false}, {11, true}, {far + 1, true}, {12, true}, {far + 2, true}},
		"one behind and the other": {{far, true}, {10, false}, {far + 1, true}, {11, false}, {12, true}, {far + 2, true}},
		"ahead, and others aside":  {{10, true}, {3 * far, false}, {far, false}, {2 * far, false}, {3*far + 1, true}, {11, true}},
		"ahead, and it from below": {{10, true}, {far, false}, {far - 400, false}, {far, false}, {far + 500, true}, {11, true}},
		"two near each other":      {{10, true}, {far, false}, {far + 1, true}, {far + 2, true}, {11, true}, {far + 3, true}},
		"it is late":               {{10, true}, {far, false}, {far + 1, true}, {far, true}},
		"the first one is made up": {{math.MaxUint32, true}, {10, false}, {11, true}, {12, true}, {10, true}, {13, true}},
		"as far as is believed":    {{10, true}, {10 + nearPackets, true}, {10 + 2*nearPackets + 1, false}},
		"three places are full": {
			{10, true}, {far, false}, {far + 1, true}, {3 * far, false}, {3*far + 1, true},
			{2 * far, false}, {2*far + 1, false}, {2*far + 2, false}, {11, true}, {far + 2, true}, {3*far + 2, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var x track
			for i, s := range steps {
				if x.seen(s.c) {
					t.Fatalf("step %d: counter %d counts as come", i, s.c)
				}
				if got := x.take(s.c); got != s.want {
					t.Fatalf("step %d: counter %d: taken %v, want %v", i, s.c, got, s.want)
				}
				if s.want && !x.seen(s.c) {
					t.Fatalf("step %d: counter %d was taken, and does not count as come", i, s.c)
				}
			}
		})
	}
}

// A place is left when so many packets in a row came elsewhere: what was taken there counts as come still.
func TestTrackLeaves(t *testing.T) {
	var x track
	x.take(10)
	x.take(1 << 20)
	for i := range uint64(leaveAfter) {
		if len(x.windows) == 1 && i > 0 {
			t.Fatalf("the first place is left after %d packets", i)
		}
		x.take(1<<20 + 1 + i)
	}
	if !x.seen(10) || !x.seen(9) || len(x.windows) != 1 {
		t.Error("it is not left")
	}
}

// Whatever is sent in a sender's name, nothing is taken twice, and memory is bounded; and where those who make things up
// never send two near each other in a row, all that the sender itself sends is taken. docs/protocol.md §27.9.
func TestTrackTakesNothingTwice(t *testing.T) {
	random := newPCG(t)
	for round := range 40 {
		var x track
		came := make(map[uint64]bool)
		next, places := random.Uint64N(1<<20), [5]uint64{}
		for i := range places {
			places[i] = random.Uint64N(1 << 32)
		}
		wild := round%2 == 0
		for range 10_000 {
			var c uint64
			genuine := !wild && random.IntN(2) == 0
			switch {
			case genuine:
				next += 1 + random.Uint64N(3)
				c = next
			case !wild:
				x.take(next + 1) // one of the sender between two others
				came[next+1] = true
				next++
				c = random.Uint64N(1<<30) + 1<<31
			default:
				p := &places[random.IntN(1+random.IntN(len(places)))]
				switch random.IntN(20) {
				case 0:
					*p = random.Uint64N(1 << 32)
				case 1:
					*p += random.Uint64N(3 * windowPackets)
				}
				*p += random.Uint64N(nearPackets) / 2
				c = *p - min(*p, random.Uint64N(2*nearPackets))
			}
			if came[c] && !x.seen(c) {
				t.Fatalf("round %d: counter %d does not count as come: %+v", round, c, x.windows)
			}
			if x.seen(c) {
				if genuine {
					t.Fatalf("round %d: the sender's own counter %d counts as come", round, c)
				}
				continue
			}
			if took := x.take(c); took {
				came[c] = true
			} else if genuine && len(came) > 0 {
				t.Fatalf("round %d: the sender's own counter %d is not taken", round, c)
			}
			if len(x.windows) > maxWindows {
				t.Fatalf("%d windows", len(x.windows))
			}
		}
		for c := range came {
			if !x.seen(c) {
				t.Fatalf("round %d: counter %d does not count as come in the end", round, c)
			}
		}
	}
}

// A sender of which many packets are lost, again and again, costs one packet more each time, and where that is
// after each few packets, a bounded number. docs/protocol.md §27.9.
func TestTrackFollows(t *testing.T) {
	for _, most := range []int{10, 1000} {
		random := newPCG(t)
		var x track
		next, refused, sent := uint64(0), 0, 0
		const bursts = 2000
		for range bursts {
			n := most/2 + random.IntN(most)
			sent += n
			for range n {
				if !x.take(next) {
					refused++
				}
				next++
			}
			next += 2*nearPackets + random.Uint64N(4*windowPackets)
		}
		if most > 2*leaveAfter && refused >= bursts || refused > sent*3/4 {
			t.Errorf("of %d packets of %d bursts %d are refused", sent, bursts, refused)
		}
		t.Logf("of %d packets of %d bursts %d are refused", sent, bursts, refused)
	}
}

// How many packets in a row, in a sender's name, it takes for its own to count as come (docs/security.md).
func TestTrackTakesSoMany(t *testing.T) {
	ahead := func(x *track, _ int) uint64 { return x.windows[0].next + nearPackets - 1 }
	places := func(_ *track, i int) uint64 {
		if i < 3 {
			return 1<<20 + uint64(i)
		}
		return 1<<21 + uint64(i)
	}
	for name, made := range map[string]func(x *track, i int) uint64{"ahead": ahead, "at two places": places} {
		silenced := 0
		for n := 1; silenced == 0 && n < 100; n++ {
			var x track
			next := uint64(100)
			x.take(next)
			for i := range n {
				x.take(made(&x, i))
			}
			taken := 0
			for range 100 {
				if next++; !x.seen(next) && x.take(next) {
					taken++
				}
			}
			if taken == 0 {
				silenced = n
			}
		}
		if silenced < 33 || silenced > 40 {
			t.Errorf("%s: %d packets", name, silenced)
		}
		t.Logf("%s: %d packets", name, silenced)
	}
}

// Who sends in a sender's name now and then, between what the sender sends, silences it nowhere, however many packets he sends and at
// however many places, ahead of the sender and behind it. Each costs the sender one packet at most.
func TestTrackOutlastsAFew(t *testing.T) {
	const far = 1 << 20
	for name, made := range map[string]func(i uint64) uint64{
		"ahead":                func(i uint64) uint64 { return (1+i/40)*far + i },
		"two at each place":    func(i uint64) uint64 { return (1+i/2)*far + i },
		"behind, and ahead":    func(i uint64) uint64 { return (1+i%2*80)*far/10 + i },
		"at three places":      func(i uint64) uint64 { return (10+i%3)*far + i },
		"at two, then a third": func(i uint64) uint64 { return (10+min(i/2, 2))*far + i },
	} {
		for _, between := range []int{1, 5, 1000} {
			var x track
			next, refused, row, longest := uint64(5*far), 0, 0, 0
			send := func() {
				if next++; !x.seen(next) && x.take(next) {
					row = 0
					return
				}
				refused++
				row++
				longest = max(longest, row)
			}
			send()
			for i := range uint64(400) {
				if c := made(i); !x.seen(c) {
					x.take(c)
				}
				for range between {
					send()
				}
			}
			if longest > 1 {
				t.Errorf("%s, %d between two: %d packets of the sender are refused, %d in a row", name, between, refused, longest)
			}
		}
	}
}
