package reliable

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

func TestSeqSet(t *testing.T) {
	for _, c := range []struct {
		name  string
		add   []uint64
		again []uint64 // of the last that was added, what is known
		fresh []uint64
	}{
		{"in order", []uint64{0, 1, 2}, []uint64{0, 1, 2}, []uint64{3}},
		{"a gap is not known", []uint64{5, 9}, []uint64{5, 9}, []uint64{6, 7, 8, 4}},
		{"what is forgotten is taken for new", []uint64{5, 5 + seqSetSize}, []uint64{5 + seqSetSize}, []uint64{5}},
		{"the places of old ones are free", []uint64{7, 8, 7 + 2*seqSetSize}, []uint64{7 + 2*seqSetSize}, []uint64{8 + seqSetSize, 8 + 2*seqSetSize}},
		{"far up", []uint64{1 << 40}, []uint64{1 << 40}, []uint64{1<<40 - 1, 1<<40 + 1}},
	} {
		var s seqSet
		for _, seq := range c.add {
			s.add(seq)
		}
		for _, seq := range c.again {
			if !s.add(seq) {
				t.Errorf("%s: %d is not known", c.name, seq)
			}
		}
		for _, seq := range c.fresh {
			if s.add(seq) {
				t.Errorf("%s: %d is known", c.name, seq)
			}
		}
	}
}

// What the legs bring decides until when a missing packet is waited for, and by which leg
// replies go. docs/protocol §23.4, §23.6.
func TestStreamLegs(t *testing.T) {
	const us = Instant(time.Microsecond)
	type state struct {
		passed uint64
		grace  time.Duration
		again  uint32 // the peer of a reply that is repeated
	}
	for _, c := range []struct {
		name string
		do   func(x *streamLegs)
		want state
	}{
		{"nothing came", func(x *streamLegs) {}, state{0, 0, 11}},
		{"one leg is alone: there is no other to wait for", func(x *streamLegs) { x.brought(us, 0, 4, true) }, state{5, 2 * startRTT, 11}},
		{"the slower of two decides", func(x *streamLegs) {
			x.brought(us, 1, 1, true)
			x.brought(us, 0, 9, true)
		}, state{2, 2 * startRTT, 11}},
		{"one that is overdue is not waited for", func(x *streamLegs) {
			x.brought(us, 1, 1, true)
			x.brought(us, 0, 9, true)
			x.overdue(5)
		}, state{10, minRetry, 11}},
		{"until it brings something newer", func(x *streamLegs) {
			x.brought(us, 1, 1, true)
			x.brought(us, 0, 9, true)
			x.overdue(5)
			x.brought(us, 1, 2, false)
		}, state{3, 2 * startRTT, 11}},
		{"an older one does not count", func(x *streamLegs) {
			x.brought(us, 1, 3, true)
			x.brought(us, 0, 9, true)
			x.overdue(5)
			x.brought(us, 1, 2, false)
		}, state{10, minRetry, 11}},
		{"the skew is measured by what another brought first", func(x *streamLegs) {
			for i := range Instant(100) {
				x.brought(1000*us*i, 0, uint64(i), true)
				x.brought(1000*us*i+300*us, 1, uint64(i), false)
			}
		}, state{100, 2 * startRTT, 11}},
		{"a silent leg gets no replies", func(x *streamLegs) {
			for i := range Instant(silentHeartbeats) {
				x.silences(upTime(1000*us*(i+1)), 0, time.Millisecond, func(int) {})
			}
		}, state{0, 0, 10}},
	} {
		x := newStreamLegs(make([]legCounts, 2), 0, 0)
		for i := range 2 {
			x.of[i].peer, x.of[i].known = uint32(10+i), true
		}
		c.do(x)
		x.advance()
		if got := (state{x.passed, x.grace(), x.way(true)}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if x.way(false) != 10 {
			t.Errorf("%s: a reply goes to peer %d", c.name, x.way(false))
		}
	}
}

// twoLegs is a receiver of two legs, each with a loss and a delay of its own, and an ideal
// publisher: it repairs at once what it is asked for.
type twoLegs struct {
	t     *testing.T
	r     *Receiver
	l     *log
	now   Instant
	rnd   *rand.Rand
	loss  [2]float64
	delay [2]time.Duration
	way   []underway
	asked map[uint64]bool
	came  [2]map[uint64]bool // or is certain to come
}

// both are the legs of a publisher that is on those of twoLegs.
var both = wire.LegsOf([]uint32{9, 10})

type underway struct {
	at  Instant
	leg int
	b   []byte
}

func newTwoLegs(t *testing.T) *twoLegs {
	l := &log{}
	return &twoLegs{
		t: t, l: l, rnd: rand.New(rand.NewPCG(5, 6)), asked: make(map[uint64]bool), came: [2]map[uint64]bool{{}, {}},
		delay: [2]time.Duration{20 * time.Microsecond, 70 * time.Microsecond},
		r: newReceiver(t, l, func(c *ReceiverConfig) {
			c.LegTags, c.WindowBytes, c.MemoryBytes = []uint32{9, 10}, 4096*512, 8*4096*512
		}),
	}
}

// send sends a packet on both legs.
func (x *twoLegs) send(b []byte, seq uint64, first bool) {
	for leg := range 2 {
		if x.rnd.Float64() < x.loss[leg] {
			continue
		}
		if first {
			x.came[leg][seq] = true
		}
		x.way = append(x.way, underway{x.now.Add(x.delay[leg]), leg, b})
	}
}

// step lets time pass.
func (x *twoLegs) step(d time.Duration) {
	x.now = x.now.Add(d)
	var rest []underway
	for _, p := range x.way {
		if p.at > x.now {
			rest = append(rest, p)
			continue
		}
		x.r.SetLeg(p.leg)
		x.r.Handle(x.now, uint64(1+p.leg), p.b)
	}
	x.way = rest
	x.r.Tick(x.now)
	for {
		_, p, ok := x.r.Next(x.now, nil)
		if !ok {
			return
		}
		h, err := wire.ParseHeader(p)
		if err != nil {
			x.t.Fatal(err)
		}
		if h.Type != wire.TypeNAK {
			continue
		}
		n, err := wire.ParseRanges(p)
		if err != nil {
			x.t.Fatal(err)
		}
		for first, count, ok := n.Next(); ok; first, count, ok = n.Next() {
			for seq := first; seq < first+count; seq++ {
				x.asked[seq] = true
				x.send(data(1, seq, wire.FlagRepair), seq, false)
			}
		}
	}
}

// Of two legs that lose a fifth each, only what both have lost is asked for, and all of that;
// a leg that is dead holds nothing up. docs/protocol §23.3, §23.4.
func TestOnlyWhatAllLegsLostIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		loss  [2]float64
		least float64 // share of packets asked for
		most  float64
		wrong int // packets that may be asked for though one leg brings them
	}{
		{"both lose a fifth", [2]float64{0.2, 0.2}, 0.03, 0.05, 0},
		{"one loses a fifth", [2]float64{0.2, 0}, 0, 0, 0},
		{"the other is dead", [2]float64{0.1, 1}, 0.08, 0.12, 0},
		{"the first is dead", [2]float64{1, 0.1}, 0.08, 0.12, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTwoLegs(t)
			const n = 20000
			beat := func(seq uint64) {
				hb := wire.Heartbeat{Lead: seq, SentAt: uint64(x.now) + 1, Interval: 100 * time.Millisecond, RTT: 50 * time.Microsecond, StatusInterval: time.Second}
				x.send(heartbeatOf(1, 0, hb), 0, false)
			}
			x.send(data(1, 0, 0), 0, true)
			x.step(100 * time.Microsecond)
			x.loss = c.loss
			for seq := uint64(1); seq < n; seq++ {
				x.send(data(1, seq, 0), seq, true)
				if seq%1000 == 0 {
					beat(seq + 1)
				}
				x.step(10 * time.Microsecond)
			}
			for range 100 {
				beat(n)
				x.step(time.Millisecond)
			}
			if got := len(x.l.packets); got != n || len(x.l.gaps) > 0 {
				t.Fatalf("%d of %d packets are delivered, gaps %v", got, n, x.l.gaps)
			}
			wrong := 0
			for seq := range x.asked {
				if x.came[0][seq] || x.came[1][seq] {
					wrong++
				}
			}
			share := float64(len(x.asked)) / n
			t.Logf("a share of %.4f is asked for, %d of them although a leg brings them", share, wrong)
			if wrong > c.wrong || share < c.least || share > c.most {
				t.Errorf("a share of %.4f is asked for, want %v to %v; %d of them although a leg brings them", share, c.least, c.most, wrong)
			}
			for leg, s := range x.r.LegStats() {
				if c.loss[leg] == 1 {
					continue
				}
				came := uint64(len(x.came[leg]))
				if s.Packets != came || s.Lost != n-came || s.Duplicates+s.Late != 0 {
					t.Errorf("leg %d, which brought %d of %d: %+v", leg, came, n, s)
				}
				if filled := s.Lost - min(s.Lost, uint64(len(x.asked))); s.Filled != filled {
					t.Errorf("leg %d: %d filled, want %d", leg, s.Filled, filled)
				}
				// Time passes in steps of 10 µs here, and repairs are among what it is measured by.
				if behind := x.delay[leg] - x.delay[0]; c.loss[0] < 1 && (s.Skew < behind-20*time.Microsecond || s.Skew > behind+20*time.Microsecond) {
					t.Errorf("leg %d is reported to be behind by %v, and is by %v", leg, s.Skew, behind)
				}
			}
			if st := x.r.Stats(); st.Duplicates > 0 || st.Late > 0 {
				t.Errorf("copies are taken for duplicates: %+v", st)
			}
		})
	}
}

// A leg that no longer carries a stream is reported as silent, once, and when it carries it again. That holds nothing
// up: after a first wait the stream does not wait for that leg. docs/protocol §23.4, §23.7.
func TestSilentLeg(t *testing.T) { silentLeg(t, both, 2) }

// One on which the publisher is not is none. docs/protocol §23.7.
func TestAbsentLegIsNotSilent(t *testing.T) { silentLeg(t, wire.Legs{}, 0) }

func silentLeg(t *testing.T, legs wire.Legs, reported int) {
	x := newTwoLegs(t)
	seq := uint64(0)
	run := func(d time.Duration) (longest time.Duration) {
		for end := x.now.Add(d); x.now < end; {
			x.send(data(1, seq, 0), seq, true)
			if seq++; seq%100 == 0 {
				x.send(heartbeatOf(1, 0, wire.Heartbeat{Lead: seq, SentAt: uint64(x.now) + 1, Interval: 100 * time.Millisecond, StatusInterval: time.Second, Legs: legs}), 0, false)
			}
			x.step(100 * time.Microsecond)
			for _, st := range x.r.Streams() {
				longest = max(longest, time.Duration(seq-st.next)*100*time.Microsecond)
			}
		}
		return longest
	}
	run(100 * time.Millisecond)
	x.loss = [2]float64{0.01, 1}
	run(10 * time.Millisecond)
	if d := run(2 * time.Second); d > 2*time.Millisecond {
		t.Errorf("a dead leg holds the other up by %v", d)
	}
	if len(x.l.legs) != reported/2 || reported > 0 && (x.l.legs[0].Leg != 1 || !x.l.legs[0].Silent || x.l.legs[0].For < 400*time.Millisecond || x.l.legs[0].For > time.Second) {
		t.Fatalf("reported %+v", x.l.legs)
	}
	x.loss = [2]float64{}
	run(100 * time.Millisecond)
	if len(x.l.legs) != reported || reported > 0 && (x.l.legs[1].Leg != 1 || x.l.legs[1].Silent || x.l.legs[1].For < 2*time.Second) {
		t.Errorf("reported %+v", x.l.legs)
	}
	if s := x.r.LegStats()[1]; s.Falls != uint64(reported/2) || s.Silent != 0 {
		t.Errorf("%+v", s)
	}
	for _, st := range x.r.Streams() {
		if st.next < seq-2 {
			t.Errorf("%d of %d are delivered", st.next, seq)
		}
	}
}

// A leg by which heartbeats come whose times do not grow falls silent, and so does the stream where that is so of both: either is
// said to be because of their times. That a leg is slow, or dead, is not. docs/protocol §5.9, §23.7.
func TestOldHeartbeatsOfALegAreNamed(t *testing.T) {
	const every = Instant(100 * time.Millisecond)
	own := func(at Instant) Instant { return at }
	stands := func(at Instant) Instant { return min(at, 10*every) }
	slow := func(at Instant) Instant { return at - 7*every/2 }
	dead := func(at Instant) Instant { return at * min(1, max(0, 10*every-at)) }
	for _, c := range []struct {
		name     string
		sent     [2]func(at Instant) Instant // when the heartbeat was sent that comes by that leg at a time
		reported int                         // of legs that fall silent, and are heard again
		faults   uint64
		down     int
	}{
		{"both are well", [2]func(Instant) Instant{own, own}, 0, 0, 0},
		{"one stands", [2]func(Instant) Instant{own, stands}, 1, 1, 0},
		{"the first stands", [2]func(Instant) Instant{stands, own}, 1, 1, 0},
		{"both stand", [2]func(Instant) Instant{stands, stands}, 0, 1, 1},
		{"one is dead", [2]func(Instant) Instant{own, dead}, 1, 0, 0},
		{"both are dead", [2]func(Instant) Instant{dead, dead}, 0, 0, 1},
		{"one is slow, and the other dead", [2]func(Instant) Instant{dead, slow}, 3, 0, 0},
		{"one is slow, and the other stands", [2]func(Instant) Instant{stands, slow}, 3, 1, 0},
	} {
		x := newTwoLegs(t)
		x.send(data(1, 0, 0), 0, true)
		x.step(time.Millisecond)
		for at := Instant(5) * every; at < 40*every; at += every {
			x.now = at
			for leg, sent := range c.sent {
				if s := sent(at); s > 0 {
					hb := wire.Heartbeat{Lead: 1, SentAt: uint64(s), Interval: time.Duration(every), StatusInterval: time.Second, Legs: both}
					x.way = append(x.way, underway{at, leg, heartbeatOf(1, 0, hb)})
				}
			}
			x.step(0)
		}
		var faults uint64
		for _, f := range x.l.faults {
			if f.Fault == events.FaultClock {
				faults = f.Count
			}
		}
		if len(x.l.legs) != c.reported || faults != c.faults || len(x.l.faults) != int(c.faults) || len(x.l.down) != c.down {
			t.Errorf("%s: legs %+v, faults %+v, down %v", c.name, x.l.legs, x.l.faults, x.l.down)
		}
	}
}

// Copies of a heartbeat and of a status change nothing but the address of their leg, and
// replies that are repeated go by the other leg. docs/protocol §23.2, §23.5, §23.6.
func TestRepliesByTheOtherLeg(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.LegTags = []uint32{8, 9} }) // 9 is the second leg's
	hb := heartbeatOf(1, wire.FlagSolicit, wire.Heartbeat{Lead: 0, SentAt: 5, Interval: time.Second, StatusInterval: time.Second})
	r.SetLeg(0)
	r.Handle(1, 100, hb)
	r.SetLeg(1)
	r.Handle(2, 101, hb)
	if n := len(r.Streams()); n != 1 {
		t.Fatalf("%d streams", n)
	}
	r.Handle(3, 101, data(1, 3, 0)) // 0 to 2 are missing
	r.SetLeg(0)
	r.Handle(3, 100, data(1, 3, 0))
	var to []uint32
	for now := Instant(3); now < Instant(10*time.Millisecond); now = now.Add(50 * time.Microsecond) {
		r.Tick(now)
		for {
			peer, p, ok := r.Next(now, nil)
			if !ok {
				break
			}
			if h, _ := wire.ParseHeader(p); h.GroupTag != 9 {
				t.Fatalf("a reply has tag %d", h.GroupTag)
			} else if h.Type == wire.TypeNAK {
				to = append(to, peer)
			}
		}
	}
	if len(to) < 2 || to[0] != 100 || to[1] != 101 {
		t.Errorf("NAKs go to %v", to)
	}
	r.Free()
	for p, n := range l.peers {
		if n != 0 {
			t.Errorf("peer %d has %d references left", p, n)
		}
	}
}
