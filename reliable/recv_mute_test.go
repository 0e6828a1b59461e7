package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// mutedLegs is twoLegs of which one is within this host, and a fabric that keeps data out of the
// other when it is told to.
type mutedLegs struct {
	*twoLegs
	local int
	out   bool // data of the other leg is kept out
	bare  bool // the local leg brings no data
	told  []Wish
	seq   uint64
	data  [2]int // packets of data that came by each leg
}

func newMutedLegs(t *testing.T, local int, can bool) *mutedLegs {
	x := &mutedLegs{twoLegs: newTwoLegs(t), local: local}
	x.r = newReceiver(t, x.l, func(c *ReceiverConfig) {
		c.LegTags, c.WindowBytes, c.MemoryBytes = []uint32{9, 10}, 4096*512, 8*4096*512
		c.Muting.Local = 1 << local
		c.Muting.Mute = func(st *Stream, peer uint32, w Wish) bool {
			if x.told = append(x.told, w); w == WishOut && !can {
				return false
			}
			if peer != uint32(st.path.legs.of[1-local].peer) || st.Epoch != 1 {
				t.Errorf("peer %d of epoch %d is muted", peer, st.Epoch)
			}
			x.out = w == WishOut
			return true
		}
	})
	return x
}

// keepOut drops what the fabric keeps out, and counts the other packets of data.
func (x *mutedLegs) keepOut() {
	rest := x.way[:0]
	for _, p := range x.way {
		h, _ := wire.ParseHeader(p.b)
		if h.Type == wire.TypeData && (x.out && p.leg != x.local || x.bare && p.leg == x.local) {
			continue
		}
		if h.Type == wire.TypeData && p.at <= x.now.Add(100*time.Microsecond) {
			x.data[p.leg]++
		}
		rest = append(rest, p)
	}
	x.way = rest
}

// run publishes every 100 µs, with a heartbeat each 10 ms.
func (x *mutedLegs) run(d time.Duration) {
	for end := x.now.Add(d); x.now < end; {
		x.send(data(1, x.seq, 0), x.seq, true)
		x.keepOut()
		if x.seq++; x.seq%100 == 0 {
			x.beat(0)
		}
		x.step(100 * time.Microsecond)
		x.keepOut() // repairs, too
	}
}

func (x *mutedLegs) beat(flags wire.Flags) {
	x.send(heartbeatOf(1, flags, wire.Heartbeat{Lead: x.seq, SentAt: uint64(x.now) + 1, Interval: 100 * time.Millisecond, StatusInterval: time.Second, Legs: both}), 0, false)
}

func (x *mutedLegs) allCame(t *testing.T) {
	t.Helper()
	x.loss = [2]float64{}
	x.run(100 * time.Millisecond)
	x.step(time.Millisecond)
	if len(x.l.gaps) > 0 || len(x.l.packets) != int(x.seq) {
		t.Errorf("%d of %d packets were delivered, gaps %v", len(x.l.packets), x.seq, x.l.gaps)
	}
	if st := x.r.Stats(); st.Duplicates > 0 {
		t.Errorf("%d duplicates", st.Duplicates)
	}
}

// While a leg within this host brings a stream its data is kept out of the other one, which is neither
// silent nor has lost anything; when it brings nothing any more the other one does, within four heartbeats.
// docs/protocol.md §23.11.
func TestMutedLeg(t *testing.T) {
	for local := range 2 {
		x := newMutedLegs(t, local, true)
		other := 1 - local
		x.run(200 * time.Millisecond)
		if !x.out {
			t.Fatalf("leg %d is not muted", other)
		}
		before := x.data[other]
		x.run(2 * time.Second)
		if s := x.r.LegStats()[other]; x.data[other] != before || s.Muted != 1 || s.Lost+s.Falls+s.Duplicates > 0 || s.Silent > 0 || len(x.l.legs) > 0 {
			t.Errorf("%d packets came by it, %+v, told %+v", x.data[other]-before, s, x.l.legs)
		}
		x.loss[local] = 1
		x.run(45 * time.Millisecond)
		if s := x.r.LegStats(); x.out || s[other].Muted != 0 || s[other].Lost > 0 {
			t.Errorf("leg %d is dead and the other muted: %+v", local, s)
		}
		x.run(2 * time.Second)
		if s := x.r.LegStats(); s[other].Lost > 0 || s[local].Falls != 1 || s[local].Silent != 1 {
			t.Errorf("when leg %d is dead: %+v", local, s)
		}
		x.allCame(t)
		if x.run(100 * time.Millisecond); !x.out || len(x.told) != 3 {
			t.Errorf("it is heard again, and the other not muted: told %v", x.told)
		}
	}
}

// What the local leg loses is asked for at once: nobody waits for one that is muted.
func TestMutedLegIsNotWaitedFor(t *testing.T) {
	x := newMutedLegs(t, 1, true)
	x.run(200 * time.Millisecond)
	x.loss[1] = 0.05
	for range 100 {
		x.run(10 * time.Millisecond)
		for _, st := range x.r.Streams() {
			if behind := x.seq - st.next; behind > 20 {
				t.Fatalf("%d packets behind", behind)
			}
		}
	}
	if len(x.asked) < 100 || len(x.told) != 1 {
		t.Errorf("%d are asked for, told %v", len(x.asked), x.told)
	}
	x.allCame(t)
}

// A leg that is far behind, as of one who reads slowly, is not dead: the heartbeats of the other one, which come before
// its data, say nothing then.
func TestMutedBehindBacklog(t *testing.T) {
	x := newMutedLegs(t, 1, true)
	x.run(200 * time.Millisecond)
	for range 100 {
		x.delay[1] += time.Millisecond
		x.run(10 * time.Millisecond)
	}
	if len(x.told) != 1 || len(x.asked) > 0 {
		t.Errorf("told %v, %d packets are asked for", x.told, len(x.asked))
	}
}

// A fabric that keeps nothing out is asked once for each leg of a stream, and all is as without.
func TestLegThatCannotBeMuted(t *testing.T) {
	x := newMutedLegs(t, 1, false)
	x.run(time.Second)
	if s := x.r.LegStats()[0]; len(x.told) != 1 || s.Packets != x.seq-1 && s.Packets != x.seq || s.Muted > 0 {
		t.Errorf("told %v, %+v of %d", x.told, s, x.seq)
	}
	x.allCame(t)
}

// What is not heard any more, is over, or comes from another address is not kept out.
func TestUnmuted(t *testing.T) {
	for name, do := range map[string]func(x *mutedLegs){
		"lost": func(x *mutedLegs) {
			for range 50 {
				x.step(100 * time.Millisecond)
			}
		},
		"ended": func(x *mutedLegs) {
			x.beat(wire.FlagEnd)
			for range 50 {
				x.step(100 * time.Millisecond)
			}
		},
		"closed": func(x *mutedLegs) { x.r.Free() },
		"moved": func(x *mutedLegs) {
			b := heartbeatOf(1, 0, wire.Heartbeat{Lead: x.seq, SentAt: uint64(x.now) + 1, Interval: 100 * time.Millisecond, StatusInterval: time.Second, Legs: both})
			for _, leg := range []int{1, 0} {
				x.r.SetLeg(leg)
				x.r.Handle(x.now, uint64(11+leg), b)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newMutedLegs(t, 1, true)
			if x.run(200 * time.Millisecond); !x.out {
				t.Fatal("it is not muted")
			}
			if do(x); x.out || len(x.told) != 2 {
				t.Errorf("it is muted: told %v", x.told)
			}
		})
	}
}

// Heartbeats that lie in one batch before what the local leg has brought say nothing of that.
func TestMutedInOneBatch(t *testing.T) {
	x := newMutedLegs(t, 1, true)
	x.run(200 * time.Millisecond)
	for range 100 {
		x.delay = [2]time.Duration{} // by the muted leg first
		x.beat(0)
		x.way = x.way[:len(x.way)-1] // the local one is about to send it
		x.step(0)
		for range 3 {
			x.now = x.now.Add(10 * time.Millisecond)
			x.beat(0)
		}
		x.way = append(append(x.way[:0:0], x.way[0], x.way[2], x.way[4]), x.way[1], x.way[3], x.way[5])
		x.step(0)
	}
	if len(x.told) != 1 {
		t.Errorf("told %v", x.told)
	}
}

// When legs are muted, by what the local one brings, and what it does not. docs/protocol.md §23.11, §23.12.
func TestMuting(t *testing.T) {
	var m muting
	sentAt, end := uint64(0), uint64(0)
	fed := func(n int) (muted bool) { // heartbeats behind new data
		for range n {
			sentAt, end = sentAt+1, end+1
			muted = m.proves(sentAt, end)
		}
		return muted
	}
	bare := func(n int) (muted bool) { // heartbeats alone
		for range n {
			sentAt++
			muted = m.proves(sentAt, end) || muted
		}
		return muted
	}
	fails := func(n int, muted bool) {
		for range n {
			m.fails(muted)
		}
	}
	for i, step := range []struct {
		what  string
		do    func() bool
		muted bool
	}{
		{"heartbeats without data", func() bool { return bare(10 * muteMost) }, false},
		{"seven with data", func() bool { return fed(muteAfter - 1) }, false},
		{"none with data", func() bool { return bare(10) }, false},
		{"an old one", func() bool { return m.proves(sentAt, end+1) }, false},
		{"the eighth", func() bool { return fed(1) }, true},
		{"the next", func() bool { return fed(1) }, true},
		{"seven after a failure while not muted", func() bool { fails(5, false); return fed(muteAfter - 1) }, false},
		{"the eighth", func() bool { return fed(1) }, true},
		{"fifteen after a failure", func() bool { fails(1, true); return fed(2*muteAfter - 1) }, false},
		{"the sixteenth", func() bool { return fed(1) }, true},
		{"31 after the next failure", func() bool { fails(1, true); return fed(4*muteAfter - 1) }, false},
		{"the 32nd", func() bool { return fed(1) }, true},
		{"1023 after many failures", func() bool { fails(100, true); return fed(muteMost - 1) }, false},
		{"the 1024th", func() bool { return fed(1) }, true},
		{"1023 after one more", func() bool { fails(1, true); return fed(muteMost - 1) }, false},
		{"as many again without failure", func() bool { return fed(muteMost + 1) }, true},
		{"fifteen after a failure", func() bool { fails(1, true); return fed(2*muteAfter - 1) }, false},
		{"the sixteenth", func() bool { return fed(1) }, true},
	} {
		if muted := step.do(); muted != step.muted {
			t.Fatalf("step %d, %s: muted is %v", i, step.what, muted)
		}
	}
	for _, c := range []struct {
		asked   int
		missing time.Duration
		want    bool
	}{
		{0, time.Hour, false}, {1, time.Hour, false}, {2, muteWait - 1, false}, {200, muteWait - 1, false}, {2, muteWait, true}, {200, time.Hour, true},
	} {
		if m.lacks(c.asked, c.missing) != c.want {
			t.Errorf("asked for %d times and missing for %v: not %v", c.asked, c.missing, c.want)
		}
	}
}

// Where the local leg brings heartbeats and no data, as out of a memory that is full, the other one is heard soon, and
// as long as that lasts; when it is over it is muted again. Each packet comes. docs/protocol.md §23.12.
func TestLocalLegBringsHeartbeatsAlone(t *testing.T) {
	for local := range 2 {
		x := newMutedLegs(t, local, true)
		x.run(200 * time.Millisecond)
		if !x.out {
			t.Fatal("it is not muted")
		}
		x.bare = true
		x.run(60 * time.Millisecond)
		if x.out {
			t.Errorf("the other leg is muted when leg %d has brought no data for 60 ms", local)
		}
		x.run(2 * time.Second)
		if x.out || len(x.told) != 2 {
			t.Errorf("told %v while leg %d brings no data", x.told, local)
		}
		x.bare = false
		if x.run(130 * time.Millisecond); x.out {
			t.Error("it is muted again before 16 heartbeats")
		}
		if x.run(100 * time.Millisecond); !x.out || len(x.told) != 3 {
			t.Errorf("told %v after 2 s in which leg %d brought no data, and 230 ms in which it did", x.told, local)
		}
		x.allCame(t)
	}
}

// Heartbeats alone mute nothing: by them it is not known whether data comes.
func TestHeartbeatsAloneMuteNothing(t *testing.T) {
	x := newMutedLegs(t, 1, true)
	x.run(20 * time.Millisecond)
	for range 100 {
		x.step(10 * time.Millisecond)
		x.beat(0)
	}
	if len(x.told) > 0 {
		t.Errorf("told %v", x.told)
	}
	x.allCame(t)
}

// What the publisher has no more when it is asked for may have come by the muted leg: that is heard from then on.
// docs/protocol.md §23.12.
func TestMutedWhatIsGone(t *testing.T) {
	x := newMutedLegs(t, 1, true)
	x.run(200 * time.Millisecond)
	x.bare = true
	x.run(time.Millisecond)
	x.seq += 5
	hb := wire.Heartbeat{Lead: x.seq, Trail: x.seq, SentAt: uint64(x.now) + 1, Interval: 100 * time.Millisecond, StatusInterval: time.Second, Legs: both}
	x.send(heartbeatOf(1, 0, hb), 0, false)
	if x.step(100 * time.Microsecond); x.out {
		t.Errorf("it is muted after a gap: told %v", x.told)
	}
	gaps := len(x.l.gaps)
	if x.run(time.Second); len(x.told) != 2 || len(x.l.gaps) != gaps || gaps == 0 {
		t.Errorf("told %v, %d gaps, and %d later", x.told, gaps, len(x.l.gaps)-gaps)
	}
}

// A receiver that was not muted by itself, and lacks what others have had, needs the leg all the same: that is said once, and
// taken back with the stream. docs/protocol.md §23.12.
func TestNeededWhereOthersKeepOut(t *testing.T) {
	x := newMutedLegs(t, 1, true)
	x.run(20 * time.Millisecond)
	x.out, x.bare = true, true // others do
	if x.run(60 * time.Millisecond); x.out || len(x.told) != 1 || x.told[0] != WishIn {
		t.Errorf("told %v", x.told)
	}
	if x.r.Free(); len(x.told) != 2 || x.told[1] != WishNone {
		t.Errorf("told %v when it is over", x.told)
	}
}

// Losses of the local leg that the first repair mends, or the one after a while, are its own: nothing changes.
func TestMutedLegIsNotMissed(t *testing.T) {
	x := newMutedLegs(t, 1, true)
	x.run(200 * time.Millisecond)
	x.loss[1] = 0.2
	x.run(5 * time.Second)
	if len(x.asked) < 5000 || len(x.told) != 1 {
		t.Errorf("%d are asked for, told %v", len(x.asked), x.told)
	}
	x.allCame(t)
}
