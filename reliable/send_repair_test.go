package reliable

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// docs/protocol §2.2, §6.5, §6.6.
func TestRepairsAreOldestFirstAndOnce(t *testing.T) {
	b := newBench(t, nil)
	b.publish(12)
	b.nak(1, [2]uint64{9, 2})
	b.nak(2, [2]uint64{3, 1}, [2]uint64{9, 1})
	var seqs []uint64
	for _, p := range of(wire.TypeData, b.next()) {
		seqs = append(seqs, p.seq())
	}
	if len(seqs) != 3 || seqs[0] != 3 || seqs[1] != 9 || seqs[2] != 10 {
		t.Fatalf("repairs %v, want 3 9 10", seqs)
	}
	b.now = b.now.Add(startRTT / 2)
	b.nak(3, [2]uint64{9, 1})
	if ps := of(wire.TypeData, b.next()); len(ps) != 0 {
		t.Errorf("%d repairs of packets repaired half a round trip ago", len(ps))
	}
	b.now = b.now.Add(startRTT)
	b.nak(3, [2]uint64{9, 1})
	if ps := of(wire.TypeData, b.next()); len(ps) != 1 {
		t.Errorf("%d repairs of packets repaired long ago", len(ps))
	}
	if st := b.s.Stats(); st.NAKDuplicate != 2 || st.RepairsSent != 4 {
		t.Errorf("%d duplicates, %d repairs", st.NAKDuplicate, st.RepairsSent)
	}
}

// A repair overtaken by later packets is lost: it is sent again, however long a round trip may
// take. docs/protocol §6.6.
func TestOvertakenRepairIsSentAgain(t *testing.T) {
	const lead = 12 // when packet 5 is repaired for receiver 1
	for _, c := range []struct {
		what      string
		receiver  uint64 // requests another packet, too
		asked     uint64
		separate  bool // in an earlier NAK
		overtaken bool
	}{
		{"too few arrived after it", 1, lead + overtakes - 2, false, false},
		{"enough arrived after it", 1, lead + overtakes - 1, false, true},
		{"enough arrived after it, one of them requested earlier", 1, lead + overtakes - 1, true, true},
		{"enough arrived at another receiver", 2, lead + overtakes - 1, true, false},
	} {
		b := newBench(t, func(c *SenderConfig) { c.WindowPackets = 1024 })
		b.status(1, 0, 1<<20, 0)
		b.status(2, 0, 1<<20, 0)
		b.publish(lead)
		b.nak(1, [2]uint64{5, 1})
		if ps := of(wire.TypeData, b.next()); len(ps) != 1 {
			t.Fatalf("%d repairs", len(ps))
		}
		b.publish(2 * overtakes)
		if c.separate {
			b.nak(c.receiver, [2]uint64{c.asked, 1})
			b.nak(1, [2]uint64{5, 1})
		} else {
			b.nak(1, [2]uint64{5, 1}, [2]uint64{c.asked, 1})
		}
		repaired := false
		for _, p := range of(wire.TypeData, b.next()) {
			repaired = repaired || p.seq() == 5
		}
		if repaired != c.overtaken {
			t.Errorf("%s: repaired again: %v", c.what, repaired)
		}
	}
}

// docs/protocol §6.7.
func TestGoneIsSentAtOnce(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Flow = NoFlow{} })
	for range 5 {
		b.publish(8)
	}
	b.now = b.now.Add(time.Millisecond)
	b.nak(1, [2]uint64{2, 3}, [2]uint64{10, 1}, [2]uint64{39, 1})
	ps := b.next()
	gone, repairs := of(wire.TypeGone, ps), of(wire.TypeData, ps)
	if len(gone) != 1 || len(repairs) != 1 || repairs[0].seq() != 39 {
		t.Fatalf("%d gone, %d repairs", len(gone), len(repairs))
	}
	r, err := wire.ParseRanges(gone[0].b)
	first, n, _ := r.Next()
	second, m, _ := r.Next()
	if err != nil || r.Reason != wire.ReasonOverwritten || first != 2 || n != 3 || second != 10 || m != 1 {
		t.Errorf("gone: %d+%d %d+%d, reason %d, %v", first, n, second, m, r.Reason, err)
	}
}

// Excessive NAKs use no more than the budget, and receivers that must wait get an NCF. docs/protocol §6.6.
func TestRepairsKeepToTheirBudget(t *testing.T) {
	const window = 1024
	b := newBench(t, func(c *SenderConfig) {
		c.PacketSize, c.MaxTrainBytes, c.WindowPackets, c.Flow = 1472, 4*1472, window, NoFlow{}
	})
	x := b.topic("a.b")
	for range window {
		b.put(x, 1300)
		b.s.Assign(b.now, b.w, true)
		b.next()
		b.now = b.now.Add(time.Millisecond) // slow: the budget is the minimum
	}
	b.status(1, b.s.win.trail, 1<<40, 0)
	start, bytes, notices := b.now, 0, 0
	for b.now.Sub(start) < 50*time.Millisecond {
		b.nak(1, [2]uint64{b.s.win.trail, b.s.win.sent - b.s.win.trail})
		for _, p := range b.next() {
			switch p.Type {
			case wire.TypeData:
				bytes += len(p.b)
			case wire.TypeNCF:
				notices++
			}
		}
		b.now = b.now.Add(100 * time.Microsecond)
	}
	// Each packet is repaired once, a burst for each round trip, in some 18 ms; then all repairs are repeated,
	// and each round takes twice as long as the previous one: seven remain, and the one that has begun.
	once := 0
	for seq := b.s.win.trail; seq < b.s.win.sent; seq++ {
		once += int(b.s.win.at(seq).size)
	}
	if bytes < once || bytes > once+8*repairBurst {
		t.Errorf("%d bytes of repairs in 50 ms, want %d to %d", bytes, once, once+8*repairBurst)
	}
	if notices == 0 {
		t.Error("no NCF was sent")
	}
}

// Requested packets that leave the window unsent do not confuse the queue.
func TestRepairsThatLeaveTheWindow(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Flow = NoFlow{} })
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		b.assign(1 + rng.IntN(4))
		if rng.IntN(3) > 0 {
			b.next()
		}
		if b.s.win.sent > 0 {
			first := b.s.win.sent - min(b.s.win.sent, uint64(1+rng.IntN(20)))
			b.nak(1, [2]uint64{first, uint64(1 + rng.IntN(5))})
		}
		n := 0
		for seq := b.s.win.trail; seq < b.s.win.next; seq++ {
			if b.s.win.index[seq&b.s.win.mask].queues != 0 {
				n++
			}
		}
		if b.s.repairs.count < n {
			t.Fatalf("%d repairs are queued, but the count is %d", n, b.s.repairs.count)
		}
		b.now = b.now.Add(50 * time.Microsecond)
	}
	b.now = b.now.Add(time.Second)
	b.next()
	b.nak(1, [2]uint64{b.s.win.sent - 1, 1})
	if ps := of(wire.TypeData, b.next()); len(ps) != 1 {
		t.Errorf("%d repairs, want 1", len(ps))
	}
}

// The back-off window grows while many request the same packets, is advertised at once, and shrinks
// again. docs/protocol §6.8.
func TestBackoffFollowsDuplicates(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Flow, c.WindowPackets = NoFlow{}, 1024 })
	rng := rand.New(rand.NewPCG(1, 1))
	advertised := time.Duration(0)
	lose := func(asking int) {
		b.publish(1)
		b.now = b.now.Add(2 * time.Millisecond)
		// Of the receivers that lost it, those within the back-off window request it.
		for i := range asking {
			if i == 0 || advertised == 0 || rng.Int64N(int64(advertised)) < int64(startRTT) {
				b.nak(uint64(i), [2]uint64{b.s.win.sent - 1, 1})
			}
		}
		for _, p := range of(wire.TypeHeartbeat, b.next()) {
			hb, _ := wire.ParseHeartbeat(p.b)
			advertised = hb.Backoff
		}
	}
	for range 50 {
		lose(20)
	}
	if advertised < 4*startRTT {
		t.Errorf("back-off %v with 20 subscribers that lose the same packets", advertised)
	}
	for range 50 {
		lose(1)
	}
	if advertised != 0 {
		t.Errorf("back-off %v with losses of single receivers", advertised)
	}
}

func TestRangesSortAndMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		var r ranges
		var want [200]bool
		for range 1 + rng.IntN(20) {
			first, n := rng.IntN(180), 1+rng.IntN(10)
			r.add(uint64(first), uint64(first+n))
			for i := range n {
				want[first+i] = true
			}
		}
		r.sort()
		var got [200]bool
		last := -1
		for i := range r.n {
			if int(r.first[i]) <= last || r.end[i] <= r.first[i] {
				t.Fatalf("ranges touch or are out of order: %v %v", r.first[:r.n], r.end[:r.n])
			}
			last = int(r.end[i])
			for x := r.first[i]; x < r.end[i]; x++ {
				got[x] = true
			}
		}
		if got != want {
			t.Fatalf("%v %v", r.first[:r.n], r.end[:r.n])
		}
	}
	// Full: further ranges are dropped.
	var r ranges
	for i := range uint64(100) {
		r.add(3*i, 3*i+1)
	}
	if r.sort(); r.n != len(r.first) {
		t.Errorf("%d ranges", r.n)
	}
}

// docs/protocol §6.9.
func TestRTTEstimate(t *testing.T) {
	var r rttEstimator
	if r.value() != startRTT || r.known() != 0 {
		t.Errorf("before a sample: %v, known %v", r.value(), r.known())
	}
	r.sample(40 * time.Microsecond)
	if r.value() != 40*time.Microsecond || r.retry(0) != 40*time.Microsecond+4*20*time.Microsecond {
		t.Errorf("after one: %v, retry %v", r.value(), r.retry(0))
	}
	for range 100 {
		r.sample(80 * time.Microsecond)
	}
	if v := r.value(); v < 79*time.Microsecond || v > 80*time.Microsecond || r.retry(0) != minRetry {
		t.Errorf("settled at %v, retry %v", v, r.retry(0))
	}
	r.sample(0)
	if r = (rttEstimator{}); r.smoothed != 0 {
		t.Fatal()
	}
	r.sample(0)
	if r.value() != minRTT {
		t.Errorf("a round trip of 0 counts as %v", r.value())
	}
	r.sample(time.Minute)
	if r.hold() < farRTT || r.value() > farRTT/8+minRTT {
		t.Errorf("after one sample of a minute the round trip is %v, the hold time %v", r.value(), r.hold())
	}
	for n := 1; r.hold() > time.Millisecond; n++ {
		if r.sample(100 * time.Microsecond); n > 60 {
			t.Fatalf("%v after %d samples of 100 µs", r.hold(), n)
		}
	}
	for range 1000 {
		r.sample(time.Minute)
	}
	if near, far := r.retry(time.Millisecond), r.retry(time.Minute); near != maxRetry || far < farRTT || far > farRTT+time.Millisecond {
		t.Errorf("retry %v, with a long round trip %v", near, far)
	}
}

func TestBucket(t *testing.T) {
	var b tokenBucket
	b.init(1000, 100, 0) // bytes per second, bytes
	if !b.take(0, 100) || b.take(0, 1) {
		t.Error("the burst is not 100 bytes")
	}
	if d := b.due(50); d < Instant(50*time.Millisecond) || d > Instant(51*time.Millisecond) {
		t.Errorf("50 bytes are due at %v", time.Duration(d))
	}
	if !b.take(b.due(50), 50) {
		t.Error("50 bytes are not available when due")
	}
	if b.take(Instant(time.Hour), 101) {
		t.Error("more than the burst is available")
	}
	var free tokenBucket
	if !free.take(0, 1<<30) {
		t.Error("a bucket without a rate limits")
	}
}

// Receivers that fetch the same history one after the other lose nothing: none of them delays the
// repairs of the next ones. docs/protocol §6.11, §6.13.
func TestConsecutiveJoinersAreServedAtOnce(t *testing.T) {
	b := idle(t, nil)
	const joiners, packets = 20, 64
	begun := b.now
	for id := uint64(1); id <= joiners; id++ {
		b.status(id, 0, 1<<40, wire.FlagJoining)
		b.nak(id, [2]uint64{b.s.win.sent - packets, packets})
		for n := 0; n < packets; b.now = b.now.Add(50 * time.Microsecond) {
			if n += len(of(wire.TypeData, b.next())); b.now.Sub(begun) > time.Second {
				t.Fatalf("receiver %d has %d packets after %v", id, n, b.now.Sub(begun))
			}
		}
		b.now = b.now.Add(time.Millisecond)
	}
	if d := b.now.Sub(begun); d > joiners*10*time.Millisecond {
		t.Errorf("%d receivers have their history after %v", joiners, d)
	}
}
