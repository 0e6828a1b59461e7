package reliable

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// docs/protocol §6.1, §6.2.
func TestReceiverRequestsAllGapsInOneNAK(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(1)
	for _, seq := range []uint64{0, 1, 3, 4, 8, 9} {
		r.Handle(now, 5, data(3, seq, 0))
	}
	naks := of(wire.TypeNAK, replies(r, now))
	if len(naks) != 1 {
		t.Fatalf("%d NAKs, want 1", len(naks))
	}
	n, _ := wire.ParseRanges(naks[0].b)
	first, count, _ := n.Next()
	second, more, _ := n.Next()
	if n.Receiver != 42 || first != 2 || count != 1 || second != 5 || more != 3 {
		t.Errorf("NAK for %d+%d %d+%d", first, count, second, more)
	}
	if naks := of(wire.TypeNAK, replies(r, now.Add(minRetry))); len(naks) != 0 {
		t.Error("repeated the NAK before a repair can have arrived")
	}
	for _, seq := range []uint64{6, 2, 7, 5} {
		r.Handle(now, 5, data(3, seq, wire.FlagRepair))
	}
	if len(l.packets) != 10 || l.count(LossRepaired) != 4 || len(l.gaps) != 0 {
		t.Errorf("%d packets, %d repaired, gaps %v", len(l.packets), l.count(LossRepaired), l.gaps)
	}
	if st := r.Stats(); st.Repaired != 4 || st.Missing != 4 {
		t.Errorf("%d missing, %d repaired", st.Missing, st.Repaired)
	}
}

// A packet that is only late closes its gap itself; the receiver learns to wait that long before
// the first NAK. docs/protocol §6.3.
func TestReceiverLearnsReordering(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(1)
	naks := 0
	for i := range uint64(1000) {
		for _, seq := range []uint64{3*i + 1, 3*i + 0, 3*i + 2} {
			if i == 0 && seq == 1 {
				continue
			}
			r.Handle(now, 5, data(3, seq, 0))
			if i > 100 {
				naks += len(of(wire.TypeNAK, replies(r, now)))
			}
			now = now.Add(10 * time.Microsecond)
		}
		if i == 0 {
			r.Handle(now, 5, data(3, 1, wire.FlagRepair))
		}
	}
	if naks > 10 {
		t.Errorf("%d NAKs for packets that were 10 us late", naks)
	}
	if len(l.packets) != 3000 {
		t.Errorf("%d packets", len(l.packets))
	}
}

// docs/protocol §4.1.
func TestReceiverStartsOnAnythingButRepairs(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	r.Handle(1, 5, data(3, 7, wire.FlagRepair))
	r.Handle(1, 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 9}))
	if len(r.Streams()) != 0 {
		t.Fatal("started by a repair, or by a stream that ends")
	}
	r.Handle(1, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 9}))
	if sts := r.Streams(); len(sts) != 1 || sts[0].Start() != 9 {
		t.Fatal("not started by a heartbeat")
	}
	r.Handle(1, 5, data(3, 8, 0))
	r.Handle(1, 5, data(3, 8, wire.FlagRepair))
	r.Handle(1, 5, data(3, 9, 0))
	if len(l.packets) != 1 || r.Stats().Unstarted != 3 {
		t.Errorf("%d packets, %d from before the start of the stream", len(l.packets), r.Stats().Unstarted)
	}
}

// docs/protocol §3.2, §13.1.
func TestReceiverIgnoresWhatIsNotForIt(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.Own, c.Checksum = events.Instance{Publisher: 8, Epoch: 3}, true })
	good := data(3, 0, 0)
	wire.SetChecksum(good)
	own, group, version, plain, bad, long := slices.Clone(good), slices.Clone(good), slices.Clone(good), data(3, 0, 0), slices.Clone(good), slices.Clone(good)
	own[16] = 8
	group[8]++
	version[2]++
	bad[40]++
	long = append(long[:wire.HeaderLen], 1)
	for _, b := range [][]byte{own, group, version, plain, bad, nil, []byte("GET / HTTP/1.1"), good[:31], long} {
		r.Handle(1, 5, b)
	}
	st := r.Stats()
	if len(r.Streams()) != 0 || st.Own != 1 || st.Foreign != 2 || st.Version != 1 || st.Damaged != 3 || st.Malformed != 2 {
		t.Errorf("%d streams, %+v", len(r.Streams()), st)
	}
	r.Handle(1, 5, good)
	if len(l.packets) != 1 {
		t.Error("the valid packet was refused")
	}
}

// docs/protocol §9.1.
func TestReceiverReportsGoneAtOnce(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	for _, seq := range []uint64{0, 2, 4} {
		r.Handle(1, 5, data(3, seq, 0))
	}
	var b wire.RangesBuilder
	b.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeGone, 0, 0, wire.ReasonOverwritten, 0, 500)
	b.Add(0, 2)
	r.Handle(1, 5, b.Finish())
	if len(l.packets) != 2 || len(l.gaps) != 1 || l.gaps[0] != [3]uint64{1, 1, uint64(events.CauseGone)} {
		t.Errorf("%d packets, gaps %v", len(l.packets), l.gaps)
	}
	// The trail in a heartbeat has the same effect.
	r.Handle(1, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 5, Trail: 4}))
	if len(l.packets) != 3 || len(l.gaps) != 2 || l.gaps[1] != [3]uint64{3, 1, uint64(events.CauseGone)} {
		t.Errorf("%d packets, gaps %v", len(l.packets), l.gaps)
	}
}

// Every gap is given up at its deadline, even those detected after others were. docs/protocol §9.1.
func TestReceiverDeadlines(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.Deadline = 50 * time.Millisecond })
	now := Instant(1)
	r.Handle(now, 5, data(3, 0, 0))
	for i := range uint64(5) {
		r.Handle(now, 5, data(3, 2*i+2, 0))
		found := now
		for len(l.gaps) <= int(i) {
			if replies(r, now); now.Sub(found) > time.Second {
				t.Fatalf("gap %d is never given up", i)
			}
			now = max(now+1, r.Deadline())
			r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 2*i + 3, SentAt: uint64(now), Interval: time.Second}))
		}
		if d := now.Sub(found); d < 50*time.Millisecond || d > 60*time.Millisecond {
			t.Errorf("gap %d is given up after %v", i, d)
		}
	}
}

// docs/protocol §11.3.
func TestLostPublisherReturns(t *testing.T) {
	l := &log{}
	mem := &heap{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.Memory = mem })
	r.Handle(1, 5, data(3, 0, 0))
	r.Handle(1, 5, data(3, 2, 0))
	now := Instant(1)
	for len(l.down) == 0 {
		if now = max(now, r.Deadline()); now > Instant(time.Minute) {
			t.Fatal("never lost")
		}
		replies(r, now)
	}
	if l.down[0] != events.CausePublisherLost || len(l.gaps) != 1 || len(l.packets) != 2 {
		t.Errorf("down %v, gaps %v, %d packets", l.down, l.gaps, len(l.packets))
	}
	if !slices.Equal(l.lost, []events.Cause{events.CausePublisherLost}) {
		t.Errorf("reported lost: %v", l.lost)
	}
	if mem.bytes != 0 {
		t.Errorf("the window of a lost publisher still has %d bytes", mem.bytes)
	}
	r.Handle(now, 5, data(3, 3, 0))
	if len(l.up) != 2 || len(l.packets) != 3 {
		t.Errorf("up %v, %d packets", l.up, len(l.packets))
	}
}

// Forged streams take no memory from genuine ones. docs/protocol §12.1, §19.2.
func TestReceiverCapsStreams(t *testing.T) {
	l := &log{}
	mem := &heap{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.Memory = mem })
	r.Handle(1, 5, data(3, 0, 0))
	for i := range uint64(100) {
		b := data(3, i, 0)
		b[17] = byte(i + 1)
		r.Handle(1, 5, b)
	}
	if len(r.Streams()) != 2 || mem.bytes != 0 || r.Stats().StreamsRefused != 99 {
		t.Errorf("%d streams, %d bytes, %d refused", len(r.Streams()), mem.bytes, r.Stats().StreamsRefused)
	}
	r.Handle(1, 5, data(3, 1, 0))
	if len(l.packets) != 3 {
		t.Errorf("%d packets", len(l.packets))
	}
}

// Every stream gets a window, within the common limit. docs/protocol §12.2.
func TestReceiverSharesMemory(t *testing.T) {
	l := &log{}
	mem := &heap{}
	const limit = 1 << 20
	r := newReceiver(t, l, func(c *ReceiverConfig) {
		c.Memory, c.MaxStreams, c.WindowBytes, c.MemoryBytes = mem, 64, limit/4, limit
	})
	for i := range 64 {
		for _, seq := range []uint64{0, 2} {
			b := data(3, seq, 0)
			b[17] = byte(i)
			r.Handle(1, 5, b)
		}
	}
	if mem.bytes > limit || r.Stats().LostOverrun != 0 {
		t.Errorf("%d bytes, limit %d; %d packets lost without a window", mem.bytes, limit, r.Stats().LostOverrun)
	}
	if first, last := r.Streams()[0].Span(), r.Streams()[63].Span(); first < 4*last || last < minWindow {
		t.Errorf("the first window holds %d packets, the last %d", first, last)
	}
	r.Free()
	if mem.bytes != 0 {
		t.Errorf("%d bytes are not freed", mem.bytes)
	}
}

// Replies are sent to the source of the publisher's newest heartbeat. docs/protocol §3.3, §5.10.
func TestReceiverFollowsThePublisher(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	r.Handle(1, 666, data(3, 0, 0)) // replayed by another host
	r.Handle(1, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: 100}))
	r.Handle(1, 666, heartbeatOf(3, 0, wire.Heartbeat{Lead: 2, SentAt: 100}))
	r.Tick(1)
	for {
		peer, _, ok := r.Next(1, nil)
		if !ok {
			break
		}
		if peer != 5 {
			t.Errorf("replied to %d", peer)
		}
	}
	if l.peers[666] != 0 || l.peers[5] != 1 {
		t.Errorf("peers held: %v", l.peers)
	}
}

// docs/protocol §7.7.
func TestReceiverLeaves(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	r.Handle(1, 5, data(3, 0, 0))
	replies(r, 1)
	r.Close(2)
	if st := of(wire.TypeStatus, replies(r, 2)); len(st) != 1 || st[0].Flags&wire.FlagLeaving == 0 {
		t.Errorf("statuses %v", st)
	}
}

// A new receiver sends early statuses, repeatedly. docs/protocol §4.3, §7.1.
func TestReceiverRepeatsItsFirstStatus(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	r.Handle(1, 5, data(3, 0, 0))
	n := 0
	for now := Instant(1); now < Instant(200*time.Millisecond); now = max(now+1, r.Deadline()) {
		n += len(of(wire.TypeStatus, replies(r, now)))
	}
	if n != joinStatuses {
		t.Errorf("%d statuses in 200 ms, want %d", n, joinStatuses)
	}
}

// docs/protocol §6.3.
func TestFirstDelayIsSpreadOverTheBackoff(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var n nakState
	if n.firstDelay(r) != 0 {
		t.Error("delayed without back-off and reordering")
	}
	n.backoff, n.receivers = time.Millisecond, 100
	early := 0
	for range 10_000 {
		d := n.firstDelay(r)
		if d < 0 || d > time.Millisecond {
			t.Fatalf("delay %v", d)
		}
		if d < time.Millisecond/4 {
			early++
		}
	}
	// Few of many are early: with 100 receivers, about one in the first quarter.
	if early < 50 || early > 300 {
		t.Errorf("%d of 10000 in the first quarter", early)
	}
}

// A receiver that requires no checksums adds them to its replies to a publisher that sends them. docs/protocol §2.4.
func TestReceiverRepliesWithChecksum(t *testing.T) {
	for _, checksum := range []bool{false, true} {
		r := newReceiver(t, &log{}, func(c *ReceiverConfig) {})
		b := heartbeatOf(3, wire.FlagSolicit, wire.Heartbeat{Lead: 5})
		if checksum {
			wire.SetChecksum(b)
		}
		r.Handle(1, 5, b)
		list := replies(r, 1)
		if len(list) == 0 {
			t.Fatal("no reply")
		}
		for _, p := range list {
			if got := p.Flags&wire.FlagChecksum != 0; got != checksum {
				t.Errorf("publisher sends checksums: %v, but %v has one: %v", checksum, p.Type, got)
			}
		}
	}
}

// The cached header of a stream's packets speeds up the check of later ones without changing the
// result: for every changed bit of a header, and without a cached header.
func TestReceiverCachesHeaders(t *testing.T) {
	for bit := range 8 * wire.DataHeaderLen {
		var stats [2]stats.ReceiverPackets
		for i, short := range []bool{false, true} {
			l := &log{}
			r := newReceiver(t, l, func(c *ReceiverConfig) { c.Own = events.Instance{Publisher: 7 ^ 1<<9, Epoch: 3} })
			r.Handle(1, 5, data(3, 0, 0))
			st := r.Streams()[0]
			if !st.plain.known {
				t.Fatal("the header of a valid packet is not cached")
			}
			st.plain.known = short
			p := data(3, 1, 0)
			p[bit/8] ^= 1 << (bit % 8)
			r.Handle(1, 5, p)
			r.Handle(1, 5, make([]byte, len(p)))
			r.Handle(1, 5, data(3, 1, 0))
			r.Tick(1)
			stats[i] = r.Stats()
		}
		if stats[0] != stats[1] {
			t.Errorf("bit %d of byte %d: %+v, with the cached header %+v", bit%8, bit/8, stats[0], stats[1])
		}
	}
	// The header of a packet with a checksum is not cached.
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.Checksum = true })
	good := data(3, 0, 0)
	wire.SetChecksum(good)
	r.Handle(1, 5, good)
	r.Handle(1, 5, make([]byte, 100))
	r.Handle(1, 5, data(3, 1, 0))
	if st := r.Stats(); len(l.packets) != 1 || st.Foreign != 1 || st.Damaged != 1 {
		t.Errorf("%d packets, %+v", len(l.packets), st)
	}
}

// A publisher is lost, others use its window's memory, and it returns: packets of the old window
// may not fit in the new one.
func TestWindowReturnsSmaller(t *testing.T) {
	of := func(publisher events.ID, seq uint64, flags wire.Flags) []byte {
		b := data(3, seq, flags)
		wire.PutDataHeader(b, wire.Header{GroupTag: 9, Publisher: publisher, Epoch: 3}, 512)
		wire.SetSeq(b, seq)
		wire.SetFlags(b, flags)
		return b
	}
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.MemoryBytes = 40 * 512 })
	now := Instant(1)
	use := func(publisher events.ID) *Stream {
		r.Handle(now, 5, of(publisher, 0, 0))
		r.Handle(now, 5, of(publisher, 2, 0))
		r.Handle(now, 5, of(publisher, 1, wire.FlagRepair))
		return r.instances.streams[events.Instance{Publisher: publisher, Epoch: 3}]
	}
	a := use(7)
	before := a.win.span
	now = now.Add(time.Hour)
	r.Tick(now)
	if !a.life.down || a.win.slots != nil || a.win.span != a.leastWindow() {
		t.Fatalf("silent publisher lost: %v; window freed: %v, with %d packets", a.life.down, a.win.slots == nil, a.win.span)
	}
	use(8)
	r.Handle(now, 5, of(7, a.next+before-1, 0))
	if a.win.span >= before {
		t.Fatalf("the window of %d packets has %d now, want fewer", before, a.win.span)
	}
	for range before {
		r.Handle(now, 5, of(7, a.next, wire.FlagRepair))
	}
	if want := uint64(3) + before; a.next != want {
		t.Errorf("the stream is at %d, want %d", a.next, want)
	}
}

// A publisher that is silent after its end, before everything was received, is lost. docs/protocol §11.3.
func TestLostAfterTheEnd(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.Deadline = time.Minute })
	now := Instant(1)
	r.Handle(now, 5, data(3, 0, 0))
	r.Handle(now, 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 4, SentAt: 1}))
	for range 300 {
		now = now.Add(100 * time.Millisecond)
		replies(r, now)
	}
	if !slices.Equal(l.down, []events.Cause{events.CausePublisherLost}) || len(l.gaps) != 1 {
		t.Errorf("down %v, gaps %v", l.down, l.gaps)
	}
}
