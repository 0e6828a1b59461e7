package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// fromWindow returns a receiver that requests the publishers' windows, with a log of its deliveries.
func fromWindow(t *testing.T, packets int) (*Receiver, *log) {
	l := &log{}
	return newReceiver(t, l, func(c *ReceiverConfig) {
		c.FromWindow, c.WindowBytes, c.MemoryBytes = true, packets*512, 8*packets*512
	}), l
}

// requested returns the ranges of all NAKs, the number of statuses, and the joining flag of the last status.
func requested(t *testing.T, all []sent) (ranges [][2]uint64, statuses int, joining bool) {
	for _, p := range all {
		if p.Type == wire.TypeStatus {
			statuses, joining = statuses+1, p.Flags&wire.FlagJoining != 0
			continue
		}
		n, err := wire.ParseRanges(p.b)
		if err != nil {
			t.Fatal(err)
		}
		for first, count, ok := n.Next(); ok; first, count, ok = n.Next() {
			ranges = append(ranges, [2]uint64{first, count})
		}
	}
	return ranges, statuses, joining
}

// docs/protocol §4.6, §4.7.
func TestReceiverFetchesTheWindow(t *testing.T) {
	r, l := fromWindow(t, 200)
	var order []uint64
	l.onPacket = func(st *Stream, _ []byte) { order = append(order, st.Next()) }
	now := Instant(time.Second)
	r.Handle(now, 5, data(3, 149, 0))
	if len(r.Streams()) != 0 {
		t.Fatal("the stream was started by data, which does not contain the beginning of the window")
	}
	r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 150, Trail: 10, SentAt: 1}))
	st := r.Streams()[0]
	if st.Start() != 10 || !st.Begun() {
		t.Fatalf("begins at %d", st.Start())
	}
	first := replies(r, now)
	if first[0].Type != wire.TypeStatus {
		t.Error("sent a NAK before the publisher knows the receiver")
	}
	ranges, _, joining := requested(t, first)
	if !joining || !slices.Equal(ranges, [][2]uint64{{150 - historyAhead, historyAhead}}) {
		t.Errorf("requested %v, joining %v", ranges, joining)
	}
	// New data waits for its turn.
	r.Handle(now, 5, data(3, 150, 0))
	for len(order) == 0 {
		if now = now.Add(minRetry); now > Instant(2*time.Second) {
			t.Fatal("no packet was delivered")
		}
		before := len(ranges)
		for _, x := range ranges {
			for seq := x[0]; seq < x[0]+x[1]; seq++ {
				r.Handle(now, 5, data(3, seq, wire.FlagRepair))
			}
		}
		if ranges, _, _ = requested(t, replies(r, now)); before == 0 {
			t.Fatal("requested no further packets")
		}
		n := uint64(0)
		for _, x := range ranges {
			n += x[1]
		}
		if n > historyAhead {
			t.Fatalf("requested %d packets at once", n)
		}
	}
	if len(order) != 141 || !slices.IsSorted(order) || order[0] != 10 || len(l.gaps) != 0 {
		t.Errorf("%d packets from %d on, gaps %v", len(order), order[0], l.gaps)
	}
	if _, n, joining := requested(t, replies(r, now)); joining && n > 0 {
		t.Error("still joining")
	}
	if x := r.Stats(); x.History != 140 || x.Missing != 0 || x.Repaired != 0 || x.Lost != 0 {
		t.Errorf("%+v", x)
	}
}

// While a stream fetches its history, the next packet to deliver is the first of the history, even
// if the first packets are given up: a topic added at this time begins there.
func TestNextWhileTheWindowIsFetched(t *testing.T) {
	for _, c := range []struct{ packets, later uint64 }{{200, 20}, {32, 10}} { // packets gone, and no room
		r, l := fromWindow(t, int(c.packets))
		now := Instant(time.Second)
		r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 100, Trail: 10, SentAt: 1}))
		r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 100, Trail: c.later, SentAt: 2}))
		if st := r.Streams()[0]; st.next == 10 || st.Next() != 10 || len(l.packets) > 0 {
			t.Errorf("%+v: continues with packet %d, %d to be fetched", c, st.Next(), st.next)
		}
	}
}

// Packets that leave the window in the meantime move the beginning of the stream. docs/protocol §4.8.
func TestHistoryThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		trail, later uint64 // trail of the second heartbeat, or of the notice that packets are gone
		gone         bool
		gap          bool
	}{
		"a later trail":                        {10, 20, false, false},
		"gone":                                 {10, 20, true, false},
		"a notice of packets before the trail": {0, 20, false, true},
		"all packets":                          {10, 60, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, l := fromWindow(t, 200)
			var order []uint64
			l.onPacket = func(st *Stream, _ []byte) { order = append(order, st.Next()) }
			now := Instant(time.Second)
			r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 50, Trail: c.trail, SentAt: 1}))
			replies(r, now)
			for seq := c.trail; seq < c.trail+5; seq++ { // requested by others
				r.Handle(now, 5, data(3, seq, wire.FlagRepair))
			}
			for seq := uint64(50); seq < 60; seq++ {
				r.Handle(now, 5, data(3, seq, 0))
			}
			if len(order) > 0 {
				t.Fatalf("%v was delivered, though later packets may be gone", order)
			}
			if c.gone {
				var b wire.RangesBuilder
				b.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeGone, 0, 15, wire.ReasonOverwritten, 0, 512)
				b.Add(15, c.later-15)
				r.Handle(now, 5, b.Finish())
			} else {
				r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 60, Trail: c.later, SentAt: 2}))
			}
			begin := min(c.later, 50)
			for seq := begin; seq < 50; seq++ {
				r.Handle(now, 5, data(3, seq, wire.FlagRepair))
			}
			if uint64(len(order)) != 60-begin || order[0] != begin || !slices.IsSorted(order) {
				t.Fatalf("delivered %v", order)
			}
			if c.gap != (len(l.gaps) == 1) || c.gap && l.gaps[0] != [3]uint64{0, 20, uint64(events.CauseGone)} {
				t.Errorf("gaps %v", l.gaps)
			}
		})
	}
}

// docs/protocol §4.8.
func TestHistoryBeyondTheReceiveWindow(t *testing.T) {
	r, l := fromWindow(t, 40)
	now := Instant(time.Second)
	r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 150, Trail: 10, SentAt: 1}))
	ranges, _, _ := requested(t, replies(r, now))
	if !slices.Equal(ranges, [][2]uint64{{120, 30}}) {
		t.Fatalf("requested %v", ranges)
	}
	for seq := uint64(120); seq < 150; seq++ {
		r.Handle(now, 5, data(3, seq, wire.FlagRepair))
	}
	if len(l.packets) != 30 || len(l.gaps) != 1 || l.gaps[0] != [3]uint64{10, 110, uint64(events.CauseOverrun)} {
		t.Errorf("%d packets, gaps %v", len(l.packets), l.gaps)
	}
}

// Packets that are not repaired in time, and the loss of the publisher, end the wait. docs/protocol §4.8, §9.1.
func TestHistoryThatDoesNotArrive(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		beats bool
		cause events.Cause
	}{
		"deadline": {3 * time.Second, true, events.CauseDeadline},
		"lost":     {5 * time.Second, false, events.CausePublisherLost},
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{}
			r := newReceiver(t, l, func(c *ReceiverConfig) {
				c.FromWindow, c.WindowBytes, c.MemoryBytes = true, 200*512, 1600*512
				if name := t.Name(); name[len(name)-4:] == "lost" {
					c.Deadline = time.Minute
				}
			})
			now := Instant(time.Second)
			r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 50, Trail: 10, SentAt: uint64(now), Interval: 100 * time.Millisecond}))
			for seq := uint64(10); seq < 50; seq++ {
				if seq != 30 {
					r.Handle(now, 5, data(3, seq, wire.FlagRepair))
				}
			}
			for end := now.Add(c.after); now < end; now = now.Add(10 * time.Millisecond) {
				if c.beats {
					r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 50, Trail: 10, SentAt: uint64(now) + 1, Interval: 100 * time.Millisecond}))
				}
				replies(r, now)
			}
			if len(l.packets) != 19 || len(l.gaps) != 1 || l.gaps[0] != [3]uint64{10, 21, uint64(c.cause)} {
				t.Errorf("%d packets, gaps %v", len(l.packets), l.gaps)
			}
		})
	}
}

// Flow control and repairs of others do not wait for a joining receiver, and its repairs come last.
// docs/protocol §6.13, §8.10.
func TestJoinersComeLast(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.WindowPackets, c.Silence = 64, time.Minute })
	b.status(1, 0, 1<<40, 0)
	b.status(2, 0, 0, wire.FlagJoining)
	b.publish(40)
	if b.s.Lead() != 40 || b.s.Delivered() != 0 {
		t.Fatalf("%d packets sent: a joining receiver blocks the publisher", b.s.Lead())
	}
	b.status(1, 40, 1<<40, 0)
	if b.s.Delivered() != 40 {
		t.Errorf("delivered %d", b.s.Delivered())
	}
	b.nak(2, [2]uint64{0, 30})
	b.nak(1, [2]uint64{20, 10})
	b.nak(2, [2]uint64{0, 30})
	var seqs []uint64
	for _, p := range of(wire.TypeData, b.next()) {
		seqs = append(seqs, p.seq())
	}
	if len(seqs) != 30 || slices.Min(seqs[:10]) != 20 || seqs[10] != 0 {
		t.Errorf("repairs %v", seqs)
	}
	if b.s.repairs.fresh != 0 && b.s.repairs.backoff != 0 {
		t.Error("joiners widen the back-off window of others")
	}
	b.status(2, 39, 41, 0)
	if b.s.Delivered() != 39 {
		t.Errorf("delivered %d, want 39, the position of the receiver that has joined", b.s.Delivered())
	}
}

// docs/protocol §6.13.
func TestJoinersLeaveTheBudgetToOthers(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) {
		c.PacketSize, c.MaxTrainBytes, c.WindowPackets, c.Flow = 1472, 4*1472, 1024, NoFlow{}
	})
	x := b.topic("a.b")
	for range 1024 {
		b.put(x, 1300)
		b.s.Assign(b.now, b.w, true)
		b.next()
		b.now = b.now.Add(time.Millisecond)
	}
	repaired := func() (n int) {
		for _, p := range of(wire.TypeData, b.next()) {
			n += len(p.b)
		}
		return n
	}
	b.status(2, 0, 0, wire.FlagJoining)
	b.nak(2, [2]uint64{b.s.win.trail, 500})
	if n := repaired(); n > joinersBurst || n < joinersBurst-1472 {
		t.Errorf("%d bytes at once for a joining receiver", n)
	}
	b.status(3, b.s.win.trail+500, 1<<40, 0)
	b.nak(3, [2]uint64{b.s.win.trail + 500, 70})
	if n := repaired(); n < repairBurst-joinersBurst-1472 {
		t.Errorf("%d bytes of repairs for others", n)
	}
	if at := b.s.repairs.deadline(b.s.cfg.PacketSize); at <= b.now || at > b.now.Add(time.Second) {
		t.Errorf("the next repair is sent after %v", at.Sub(b.now))
	}
}
