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
		again []uint64 // results for the last one added
		fresh []uint64
	}{
		{"in order", []uint64{0, 1, 2}, []uint64{0, 1, 2}, []uint64{3}},
		{"a gap is not contained", []uint64{5, 9}, []uint64{5, 9}, []uint64{6, 7, 8, 4}},
		{"forgotten sequences are new", []uint64{5, 5 + seqSetSize}, []uint64{5 + seqSetSize}, []uint64{5}},
		{"slots of old ones are free", []uint64{7, 8, 7 + 2*seqSetSize}, []uint64{7 + 2*seqSetSize}, []uint64{8 + seqSetSize, 8 + 2*seqSetSize}},
		{"far up", []uint64{1 << 40}, []uint64{1 << 40}, []uint64{1<<40 - 1, 1<<40 + 1}},
	} {
		var s seqSet
		for _, seq := range c.add {
			s.add(seq)
		}
		for _, seq := range c.again {
			if !s.add(seq) {
				t.Errorf("%s: %d is not contained", c.name, seq)
			}
		}
		for _, seq := range c.fresh {
			if s.add(seq) {
				t.Errorf("%s: %d is contained", c.name, seq)
			}
		}
	}
}

// The packets received on each leg determine until when a missing packet is awaited, and on which
// leg replies are sent. docs/protocol §23.4, §23.6.
func TestStreamLegs(t *testing.T) {
	const us = Instant(time.Microsecond)
	type state struct {
		passed uint64
		grace  time.Duration
		again  uint32 // peer for a repeated reply
	}
	for _, c := range []struct {
		name string
		do   func(x *streamLegs)
		want state
	}{
		{"no packet", func(x *streamLegs) {}, state{0, 0, 11}},
		{"one leg: no other to wait for", func(x *streamLegs) { x.brought(us, 0, 4, true) }, state{5, 2 * startRTT, 11}},
		{"the slower of two", func(x *streamLegs) {
			x.brought(us, 1, 1, true)
			x.brought(us, 0, 9, true)
		}, state{2, 2 * startRTT, 11}},
		{"no wait for an overdue leg", func(x *streamLegs) {
			x.brought(us, 1, 1, true)
			x.brought(us, 0, 9, true)
			x.overdue(5)
		}, state{10, minRetry, 11}},
		{"until it delivers a newer packet", func(x *streamLegs) {
			x.brought(us, 1, 1, true)
			x.brought(us, 0, 9, true)
			x.overdue(5)
			x.brought(us, 1, 2, false)
		}, state{3, 2 * startRTT, 11}},
		{"an older packet does not count", func(x *streamLegs) {
			x.brought(us, 1, 3, true)
			x.brought(us, 0, 9, true)
			x.overdue(5)
			x.brought(us, 1, 2, false)
		}, state{10, minRetry, 11}},
		{"skew relative to the other leg", func(x *streamLegs) {
			for i := range Instant(100) {
				x.brought(1000*us*i, 0, uint64(i), true)
				x.brought(1000*us*i+300*us, 1, uint64(i), false)
			}
		}, state{100, 2 * startRTT, 11}},
		{"no replies on a silent leg", func(x *streamLegs) {
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
			t.Errorf("%s: a reply is sent to peer %d", c.name, x.way(false))
		}
	}
}

// twoLegs is a receiver with two legs, each with a loss and a delay of its own, and an ideal
// publisher: it repairs each request at once.
type twoLegs struct {
	t         *testing.T
	r         *Receiver
	l         *log
	now       Instant
	rnd       *rand.Rand
	loss      [2]float64
	delay     [2]time.Duration
	network   []inFlight
	requested map[uint64]bool
	delivered [2]map[uint64]bool // delivered, or certain to be
}

// both are the legs of a publisher with the legs of twoLegs.
var both = wire.LegsOf([]uint32{9, 10})

type inFlight struct {
	at  Instant
	leg int
	b   []byte
}

func newTwoLegs(t *testing.T) *twoLegs {
	l := &log{}
	return &twoLegs{
		t: t, l: l, rnd: rand.New(rand.NewPCG(5, 6)), requested: make(map[uint64]bool), delivered: [2]map[uint64]bool{{}, {}},
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
			x.delivered[leg][seq] = true
		}
		x.network = append(x.network, inFlight{x.now.Add(x.delay[leg]), leg, b})
	}
}

// step lets time pass.
func (x *twoLegs) step(d time.Duration) {
	x.now = x.now.Add(d)
	var rest []inFlight
	for _, p := range x.network {
		if p.at > x.now {
			rest = append(rest, p)
			continue
		}
		x.r.SetLeg(p.leg)
		x.r.Handle(x.now, uint64(1+p.leg), p.b)
	}
	x.network = rest
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
				x.requested[seq] = true
				x.send(data(1, seq, wire.FlagRepair), seq, false)
			}
		}
	}
}

// With two legs that lose a fifth each, exactly the packets lost on both are requested; a dead leg
// delays nothing. docs/protocol §23.3, §23.4.
func TestOnlyCommonLossesAreRequested(t *testing.T) {
	for _, c := range []struct {
		name  string
		loss  [2]float64
		least float64 // share of packets requested
		most  float64
		wrong int // maximum of requests for packets that one leg delivers
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
				t.Fatalf("%d of %d packets delivered, gaps %v", got, n, x.l.gaps)
			}
			wrong := 0
			for seq := range x.requested {
				if x.delivered[0][seq] || x.delivered[1][seq] {
					wrong++
				}
			}
			share := float64(len(x.requested)) / n
			t.Logf("%.4f of the packets requested, %d of them delivered by a leg", share, wrong)
			if wrong > c.wrong || share < c.least || share > c.most {
				t.Errorf("%.4f of the packets requested, want %v to %v; %d of them delivered by a leg", share, c.least, c.most, wrong)
			}
			for leg, s := range x.r.LegStats() {
				if c.loss[leg] == 1 {
					continue
				}
				came := uint64(len(x.delivered[leg]))
				if s.Packets != came || s.Lost != n-came || s.Duplicates+s.Late != 0 {
					t.Errorf("leg %d, which delivered %d of %d: %+v", leg, came, n, s)
				}
				if filled := s.Lost - min(s.Lost, uint64(len(x.requested))); s.Filled != filled {
					t.Errorf("leg %d: %d filled, want %d", leg, s.Filled, filled)
				}
				// Time passes in steps of 10 µs, and repairs count in the measurement.
				if behind := x.delay[leg] - x.delay[0]; c.loss[0] < 1 && (s.Skew < behind-20*time.Microsecond || s.Skew > behind+20*time.Microsecond) {
					t.Errorf("leg %d: skew %v, want %v", leg, s.Skew, behind)
				}
			}
			if st := x.r.Stats(); st.Duplicates > 0 || st.Late > 0 {
				t.Errorf("copies are counted as duplicates: %+v", st)
			}
		})
	}
}

// A leg that stops carrying a stream is reported as silent, once, and again when it resumes. It delays
// nothing: after a first wait the stream does not wait for that leg. docs/protocol §23.4, §23.7.
func TestSilentLeg(t *testing.T) { silentLeg(t, both, 2) }

// A leg that the publisher does not use is not reported as silent. docs/protocol §23.7.
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
		t.Errorf("a dead leg delays the other one by %v", d)
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
			t.Errorf("%d of %d delivered", st.next, seq)
		}
	}
}

// A leg with heartbeats whose times do not increase is silent, and so is the stream if both legs are like that. The
// report names this fault; the report of a slow or dead leg does not. docs/protocol §5.9, §23.7.
func TestOldHeartbeatsOfALegAreNamed(t *testing.T) {
	const every = Instant(100 * time.Millisecond)
	own := func(at Instant) Instant { return at }
	stands := func(at Instant) Instant { return min(at, 10*every) }
	slow := func(at Instant) Instant { return at - 7*every/2 }
	dead := func(at Instant) Instant { return at * min(1, max(0, 10*every-at)) }
	for _, c := range []struct {
		name     string
		sent     [2]func(at Instant) Instant // time of sending of the heartbeat that arrives by the leg
		reported int                         // legs reported silent or active again
		faults   uint64
		down     int
	}{
		{"both work", [2]func(Instant) Instant{own, own}, 0, 0, 0},
		{"times of one do not increase", [2]func(Instant) Instant{own, stands}, 1, 1, 0},
		{"times of the first do not increase", [2]func(Instant) Instant{stands, own}, 1, 1, 0},
		{"times of both do not increase", [2]func(Instant) Instant{stands, stands}, 0, 1, 1},
		{"one is dead", [2]func(Instant) Instant{own, dead}, 1, 0, 0},
		{"both are dead", [2]func(Instant) Instant{dead, dead}, 0, 0, 1},
		{"one is slow, the other dead", [2]func(Instant) Instant{dead, slow}, 3, 0, 0},
		{"one is slow, times of the other do not increase", [2]func(Instant) Instant{stands, slow}, 3, 1, 0},
	} {
		x := newTwoLegs(t)
		x.send(data(1, 0, 0), 0, true)
		x.step(time.Millisecond)
		for at := Instant(5) * every; at < 40*every; at += every {
			x.now = at
			for leg, sent := range c.sent {
				if s := sent(at); s > 0 {
					hb := wire.Heartbeat{Lead: 1, SentAt: uint64(s), Interval: time.Duration(every), StatusInterval: time.Second, Legs: both}
					x.network = append(x.network, inFlight{at, leg, heartbeatOf(1, 0, hb)})
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

// Copies of a heartbeat or a status only update the address of their leg, and repeated replies are
// sent on the other leg. docs/protocol §23.2, §23.5, §23.6.
func TestRepliesByTheOtherLeg(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.LegTags = []uint32{8, 9} }) // 9 is the tag of the second leg
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
		t.Errorf("NAKs are sent to %v", to)
	}
	r.Free()
	for p, n := range l.peers {
		if n != 0 {
			t.Errorf("peer %d has %d references left", p, n)
		}
	}
}
