package reliable

import (
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// assign tries to assign n more packets and returns how many it assigned.
func (b *bench) assign(n int) (assigned int, r events.Reason) {
	t := b.topic("a.b")
	lead := b.s.Lead()
	for range n {
		if !b.w.Pending() {
			if !b.s.Grant(b.w.Packets) {
				return int(b.s.Lead() - lead), events.ReasonMemory
			}
			b.w.Append(t, make([]byte, 100))
		}
		if r = b.s.Assign(b.now, b.w, true); r != events.ReasonNone {
			break
		}
	}
	return int(b.s.Lead() - lead), r
}

// docs/protocol §8.1.
func TestMinFlowKeepsToTheSlowestWindow(t *testing.T) {
	b := newBench(t, nil)
	b.status(1, 0, 10, 0)
	b.status(2, 0, 5, 0)
	if n, r := b.assign(20); n != 5 || r != events.ReasonFlow {
		t.Fatalf("assigned %d (%v), want 5", n, r)
	}
	b.next()
	b.status(2, 5, 12, 0)
	if n, r := b.assign(20); n != 5 || r != events.ReasonFlow {
		t.Fatalf("assigned %d more (%v), want 5: the other one has room up to 10", n, r)
	}
	b.status(1, 10, 100, wire.FlagLeaving)
	if n, r := b.assign(20); n != 2 || r != events.ReasonFlow {
		t.Fatalf("assigned %d more (%v), want 2 after the first has left", n, r)
	}
	b.next()
	// A late old status reverts nothing.
	b.status(2, 12, 100, 0)
	b.status(2, 5, 12, 0)
	if n, _ := b.assign(3); n != 3 {
		t.Fatalf("assigned %d, want 3", n)
	}
}

// Packets that a subscriber lacks stay in the window, however much room it has. docs/protocol §8.1.
func TestMinFlowKeepsMissingPackets(t *testing.T) {
	b := newBench(t, nil)
	b.status(1, 0, 1000, 0)
	b.assign(4)
	b.next()
	b.status(1, 2, 1000, 0)
	if n, r := b.assign(100); n != 14 || r != events.ReasonFlow {
		t.Fatalf("assigned %d (%v), want 14: 2 to 17 fill the window of 16", n, r)
	}
	b.next()
	b.nak(1, [2]uint64{2, 1})
	if ps := of(wire.TypeData, b.next()); len(ps) != 1 || ps[0].seq() != 2 || ps[0].Flags&wire.FlagRepair == 0 {
		t.Errorf("repair: %v", ps)
	}
}

// docs/protocol §8.2.
func TestNoMemberBlocksAPublisher(t *testing.T) {
	for name, flow := range map[string]FlowControl{"min without subscribers": MinFlow{}, "none": NoFlow{}} {
		b := newBench(t, func(c *SenderConfig) { c.Flow = flow })
		if flow.String() == "none" {
			b.status(1, 0, 3, 0)
		}
		for i := range 100 {
			if n, r := b.assign(1); n != 1 {
				t.Fatalf("%s: packet %d: %v", name, i, r)
			}
			b.next()
		}
	}
}

// Packets assigned before a subscriber joins wait until it has room. docs/protocol §8.2.
func TestAssignedPacketsWaitForANewSubscriber(t *testing.T) {
	b := newBench(t, nil)
	b.assign(10)
	b.status(1, 0, 4, 0)
	if ps := of(wire.TypeData, b.next()); len(ps) != 4 {
		t.Fatalf("%d packets sent, it has room for 4", len(ps))
	}
	b.now = b.now.Add(time.Millisecond)
	if hb := of(wire.TypeHeartbeat, b.next()); len(hb) != 1 || hb[0].Flags&wire.FlagSolicit == 0 {
		t.Errorf("it is not solicited: %v", hb)
	}
	b.status(1, 4, 100, 0)
	if ps := of(wire.TypeData, b.next()); len(ps) != 6 {
		t.Errorf("%d packets sent, want the other 6", len(ps))
	}
}

func TestRateLimit(t *testing.T) {
	const rate = 1_000_000
	b := newBench(t, func(c *SenderConfig) { c.Rate, c.MaxTrain, c.MaxTrainBytes = rate, 1, 512 })
	start, bytes := b.now, 0
	for b.now.Sub(start) < time.Second {
		_, r := b.assign(1000)
		for _, p := range of(wire.TypeData, b.next()) {
			bytes += len(p.b)
		}
		if r == events.ReasonRate {
			d := b.s.Deadline()
			if d <= b.now {
				t.Fatalf("limited at %v, deadline %v", b.now, d)
			}
			b.now = d
		}
	}
	if bytes < rate*98/100 || bytes > rate*102/100 {
		t.Errorf("%d bytes in a second at a rate of %d", bytes, rate)
	}
}

// Packet memory still used by the transport is not overwritten.
func TestMemoryWaitsForTheTransport(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Flow = NoFlow{} })
	var tr transport.Outbound
	taken := 0
	for range 100 {
		b.assign(4)
		if !b.s.Next(b.now, &tr) {
			break
		}
		b.s.Sent(b.now, tr.Count, 0) // nothing is completed
		taken += tr.Count
	}
	if _, r := b.assign(1); r != events.ReasonMemory {
		t.Errorf("after %d packets: %v", taken, r)
	}
	b.s.Completed(uint64(taken))
	if n, r := b.assign(1); n != 1 {
		t.Errorf("after completion: %v", r)
	}
}

func TestUnsentPacketsAreReturnedAgain(t *testing.T) {
	b := newBench(t, nil)
	b.assign(8)
	var tr transport.Outbound
	var seqs []uint64
	for i := 0; b.s.Next(b.now, &tr); i++ {
		n := min(tr.Count, i%3)
		for k := range n {
			if p := tr.Data[k*tr.Stride:][:tr.Lens[k]]; wire.Type(p[3]) == wire.TypeData {
				d, _ := wire.ParseData(p)
				seqs = append(seqs, d.Seq)
			}
		}
		b.s.Sent(b.now, n, b.s.out.posted+uint64(n))
		b.now++
	}
	if !slices.Equal(seqs, []uint64{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("sent %v", seqs)
	}
}

// A silent subscriber is solicited at least ten times, over at least Silence, and released only if
// nothing at all arrives from it. docs/protocol §8.4.
func TestSilentSubscriberIsReleased(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Silence = 300 * time.Millisecond })
	b.status(1, 0, 4, 0)
	b.assign(10)
	start, asked, unanswered := b.now, 0, time.Duration(0)
	for len(b.s.members.list) > 0 {
		m := b.s.Members(b.now)[0]
		if unanswered = m.Unanswered; unanswered > m.LastHeard {
			t.Fatalf("solicited for %v and received %v ago", unanswered, m.LastHeard)
		}
		for _, p := range of(wire.TypeHeartbeat, b.next()) {
			if p.Flags&wire.FlagSolicit != 0 {
				asked++
			}
		}
		if b.now = max(b.now, b.s.Deadline()); b.now.Sub(start) > 10*time.Second {
			t.Fatal("never released")
		}
	}
	if d := b.now.Sub(start); asked < solicitations || d < 300*time.Millisecond || d > time.Second {
		t.Errorf("released after %v and %d solicitations", d, asked)
	}
	if unanswered < 200*time.Millisecond {
		t.Errorf("no reply for %v", unanswered)
	}
	if all := taken(b.s, events.SubscriberSilent); len(all) != 1 || all[0].Subscriber != 1 || all[0].For < 300*time.Millisecond || b.s.TakeEvents() != nil {
		t.Errorf("released %+v", all)
	}
	if n, r := b.assign(3); n != 3 {
		t.Errorf("still blocked: %v", r)
	}

	// An occasional NAK keeps it alive.
	b = newBench(t, func(c *SenderConfig) { c.Silence = 300 * time.Millisecond })
	b.status(1, 0, 4, 0)
	b.assign(10)
	start = b.now
	for b.now.Sub(start) < 5*time.Second {
		b.next()
		if b.now = max(b.now, b.s.Deadline()); b.now.Sub(start)%(200*time.Millisecond) < 100*time.Millisecond {
			b.nak(1, [2]uint64{0, 1})
			if d := b.s.Members(b.now)[0].Unanswered; d != 0 {
				t.Fatalf("no reply for %v although it has replied", d)
			}
		}
	}
	if b.s.Stats().ReceiversSilent != 0 {
		t.Error("released although it sent NAKs")
	}
}

// A publisher whose heartbeats are not sent releases no member. docs/protocol §8.4.
func TestUnsentSolicitationsDoNotCount(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) {
		c.Silence, c.StallLimit, c.Slow = 2*time.Second, 5*time.Second, SlowLimit{1, 5 * time.Second}
	})
	b.status(1, 0, 4, 0)
	b.assign(10)
	pass := func(sends bool, d time.Duration) {
		for start := b.now; b.now.Sub(start) < d; b.now = max(b.now.Add(time.Millisecond), b.s.Deadline()) {
			if sends {
				b.next()
				continue
			}
			var tr transport.Outbound
			if b.s.Next(b.now, &tr) {
				b.s.Sent(b.now, 0, b.s.out.posted)
			}
			b.s.releaseHolders(b.now)
			if h, held := b.s.Holder(b.now); held && b.now.Sub(start) > time.Second {
				t.Fatalf("blocked by %+v while nothing leaves", h)
			}
		}
	}
	pass(true, 200*time.Millisecond) // it is solicited, and has some time left
	if pass(false, 10*time.Second); b.s.Stats().ReceiversSilent+b.s.Stats().ReceiversReleased != 0 {
		t.Fatal("released while no solicitation is sent")
	}
	if pass(true, 1200*time.Millisecond); b.s.Stats().ReceiversSilent != 0 { // ten solicitations
		t.Fatal("released because of time without solicitations")
	}
	if pass(true, 10*time.Second); b.s.Stats().ReceiversSilent != 1 {
		t.Error("not released after solicitations")
	}
}

// A publisher that has not read its replies, or has dropped some, releases no member. docs/protocol §6.15, §8.4.
func TestUnreadRepliesDoNotCountAsSilence(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Silence = 300 * time.Millisecond })
	b.status(1, 0, 4, 0)
	b.assign(10)
	pass := func(d time.Duration, each func()) {
		t.Helper()
		for start := b.now; b.now.Sub(start) < d && len(b.s.members.list) > 0; b.now = max(b.now, b.s.Deadline()) {
			each()
			b.next()
		}
	}
	b.s.RepliesRead(b.now)
	if pass(10*time.Second, func() {}); b.s.Stats().ReceiversSilent != 0 {
		t.Fatal("released while its replies may be unread")
	}
	b.s.RepliesLost()
	last := b.now
	if pass(10*time.Second, func() {
		b.s.RepliesRead(b.now)
		if b.now.Sub(last) >= 200*time.Millisecond {
			last = b.now
			b.s.RepliesLost()
		}
	}); b.s.Stats().ReceiversSilent != 0 {
		t.Fatal("released while replies are dropped")
	}
	if pass(10*time.Second, func() { b.s.RepliesRead(b.now) }); b.s.Stats().ReceiversSilent != 1 {
		t.Error("not released after all was read")
	}
}

// docs/protocol §8.8, §12.1.
func TestSubscribersAreBounded(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.MaxReceivers = 10 })
	for id := range uint64(100) {
		b.status(id+1, 0, 1000, 0)
	}
	if n := len(b.s.members.list); n != 10 || b.s.Stats().ReceiversRefused != 90 {
		t.Errorf("%d kept, %d refused", n, b.s.Stats().ReceiversRefused)
	}
}

// On the ladder the first two heartbeats are sent a tail delay after the previous packet, then the
// intervals double, up to a long one when all have everything. docs/protocol §5.1, §5.8.
func TestHeartbeatLadder(t *testing.T) {
	b := newBench(t, nil)
	b.next()
	b.status(1, 0, 100, 0)
	b.publish(2)
	start := b.now
	var at []time.Duration
	for b.now.Sub(start) < 4*time.Second {
		b.now = b.s.Deadline()
		for _, p := range of(wire.TypeHeartbeat, b.next()) {
			hb, _ := wire.ParseHeartbeat(p.b)
			if hb.Lead != 2 || hb.Trail != 0 {
				t.Fatalf("heartbeat has %d..%d", hb.Trail, hb.Lead)
			}
			at = append(at, b.now.Sub(start))
		}
		if b.now.Sub(start) > time.Second/2 {
			b.status(1, 2, 100, 0)
		}
	}
	step := tailDelay
	for i, d := range at[:10] {
		var last time.Duration
		if i > 0 {
			last = at[i-1]
		}
		if d-last != step {
			t.Errorf("heartbeat %d is sent %v after the previous one, want %v", i, d-last, step)
		}
		if i > 0 {
			step = min(2*step, slowHeartbeat)
		}
	}
	if n := len(at); at[n-1]-at[n-2] != quietHeartbeat {
		t.Errorf("at the end a heartbeat every %v, want %v", at[n-1]-at[n-2], quietHeartbeat)
	}
	// New data restarts the ladder.
	b.publish(1)
	start = b.now
	b.now = b.s.Deadline()
	if hb := of(wire.TypeHeartbeat, b.next()); len(hb) != 1 || b.now.Sub(start) != tailDelay {
		t.Errorf("%d heartbeats after %v", len(hb), b.now.Sub(start))
	}
}

// During data, heartbeats are sent only for the timers that they contain. docs/protocol §5.2.
func TestHeartbeatsAreRareWhileDataFlows(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Flow = NoFlow{} })
	b.next()
	heartbeats := 0
	for range 10_000 { // 100 ms
		b.publish(1)
		b.now = b.now.Add(10 * time.Microsecond)
		heartbeats += len(of(wire.TypeHeartbeat, b.next()))
	}
	if heartbeats < 9 || heartbeats > 12 {
		t.Errorf("%d heartbeats in 100 ms of data", heartbeats)
	}
}

// A publisher that begins to wait until all have everything solicits at once, right after data. During further
// data it solicits no more often than otherwise, though some members never have everything. docs/protocol §5.8.
func TestHurrySolicitsOnce(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) { c.Flow = NoFlow{} })
	b.next()
	b.status(1, 0, 10_000, 0)
	b.publish(1)
	b.next()
	for round := range 3 {
		b.publish(1)
		b.next()
		b.s.Hurry(b.now, true)
		asked := of(wire.TypeHeartbeat, b.next())
		if len(asked) != 1 || asked[0].Flags&wire.FlagSolicit == 0 {
			t.Fatalf("round %d: %d heartbeats at once", round, len(asked))
		}
		heartbeats := 0
		for range 1000 { // 50 ms
			b.now = b.now.Add(50 * time.Microsecond)
			heartbeats += len(of(wire.TypeHeartbeat, b.next())) // like the loop, between two messages
			b.publish(1)
			heartbeats += len(of(wire.TypeHeartbeat, b.next()))
			b.s.Hurry(b.now, false)
		}
		if heartbeats > 6 {
			t.Errorf("round %d: %d heartbeats in 50 ms of data during a wait", round, heartbeats)
		}
	}
}

// A publisher that takes longer than the ladder's first step to fill a train sends no heartbeat before
// each: the train also has the lead. Heartbeats follow the last train. docs/protocol §4.2, §5.2.
func TestNoHeartbeatBeforeData(t *testing.T) {
	b := newBench(t, nil)
	b.assign(1)
	if ps := b.next(); len(ps) < 2 || ps[0].Type != wire.TypeHeartbeat {
		t.Fatal("no heartbeat announces the beginning of the stream")
	}
	for i := range 50 {
		b.now = b.now.Add(tailDelay * 3 / 2)
		b.status(1, b.s.Lead(), b.s.Lead()+1000, 0)
		b.assign(1)
		ps := b.next()
		if heartbeats := of(wire.TypeHeartbeat, ps); len(heartbeats) != 0 && b.now.Sub(b.s.heartbeat.last) > 0 {
			t.Fatalf("train %d is sent after a heartbeat", i)
		}
		if len(of(wire.TypeData, ps)) != 1 {
			t.Fatalf("train %d was not sent", i)
		}
	}
	if n := b.s.Stats().HeartbeatsSent; n > 3 {
		t.Errorf("%d heartbeats in %v of data", n, 50*tailDelay*3/2)
	}
	b.now = b.now.Add(tailDelay)
	if len(of(wire.TypeHeartbeat, b.next())) != 1 {
		t.Error("no heartbeat follows the last packet")
	}
}

// While the transport accepts nothing the ladder continues, and the loop is woken no more often
// than that requires. docs/protocol §5.3.
func TestHeartbeatsWhileTheTransportIsFull(t *testing.T) {
	b := newBench(t, nil)
	b.publish(1)
	b.next()
	b.assign(1)
	start, looks, heartbeats := b.now, 0, b.s.Stats().HeartbeatsSent
	var train transport.Outbound
	for b.now.Sub(start) < 10*time.Second {
		b.now = max(b.now+1, b.s.Deadline())
		looks++
		if b.s.Next(b.now, &train) {
			b.s.Sent(b.now, 0, b.s.out.done)
		}
	}
	if n := b.s.Stats().HeartbeatsSent - heartbeats; looks > 250 || n > 250 {
		t.Errorf("%d wakes and %d heartbeats in 10 s while the transport accepts nothing", looks, n)
	}
}

// docs/protocol §11.1.
func TestEndLingersUntilAllHaveIt(t *testing.T) {
	b := newBench(t, nil)
	b.status(1, 0, 100, 0)
	b.publish(3)
	b.s.End(b.now)
	for range 20 {
		for _, p := range of(wire.TypeHeartbeat, b.next()) {
			if p.Flags&wire.FlagEnd == 0 || p.Flags&wire.FlagSolicit == 0 {
				t.Fatalf("heartbeat with flags %#x", p.Flags)
			}
		}
		if b.s.Drained() {
			t.Fatal("drained although a subscriber has nothing")
		}
		b.now = b.s.Deadline()
	}
	b.status(1, 3, 100, 0)
	if b.s.Drained() {
		t.Error("drained although the subscriber does not know of the end")
	}
	b.s.Handle(b.now, wire.AppendStatus(nil, b.header(), &wire.Status{Receiver: 1, Next: 3, Limit: 100, Echo: uint64(b.now) - 1}, nil), nil)
	if b.s.Drained() {
		t.Error("drained although the subscriber has answered only one END heartbeat")
	}
	b.s.Handle(b.now, wire.AppendStatus(nil, b.header(), &wire.Status{Receiver: 1, Next: 3, Limit: 100, Echo: uint64(b.now)}, nil), nil)
	if !b.s.Drained() {
		t.Error("not drained although all have everything and know of the end")
	}
}

// docs/protocol §13.1.
func TestSenderCountsWhatIsNotForIt(t *testing.T) {
	b := newBench(t, nil)
	b.publish(2)
	good := wire.AppendStatus(nil, b.header(), &wire.Status{Receiver: 1, Next: 1, Limit: 10}, nil)
	for n := range len(good) {
		b.s.Handle(b.now, good[:n], func() string { return "10.0.0.7:4711" })
	}
	b.status(1, 3, 10, 0) // claims packets that were never sent
	for _, h := range []wire.Header{{GroupTag: 8, Publisher: 7, Epoch: 3}, {GroupTag: 9, Publisher: 6, Epoch: 3}, {GroupTag: 9, Publisher: 7, Epoch: 2}} {
		b.s.Handle(b.now, wire.AppendStatus(nil, h, &wire.Status{Receiver: 1, Next: 1, Limit: 10}, nil), nil)
	}
	b.s.Handle(b.now, data(3, 0, 0), nil)
	b.nak(1, [2]uint64{2, 5})
	st := b.s.Stats()
	if len(b.s.members.list) != 0 || st.Malformed != uint64(len(good))+1 || st.Foreign != 4 || st.NAKInvalid != 1 {
		t.Errorf("%d subscribers, %d malformed, %d foreign, %d invalid NAKs", len(b.s.members.list), st.Malformed, st.Foreign, st.NAKInvalid)
	}
	x := taken(b.s, events.BadPackets)
	if n := bits.Len(uint(len(good) + 2)); len(x) != n || x[0].Err != wire.ErrShort || x[0].Address != "10.0.0.7:4711" || x[n-1].Behind != 1<<(n-1) {
		t.Errorf("refused packets are reported as %+v", x)
	}
	if ps := of(wire.TypeData, b.next()); len(ps) != 0 {
		t.Errorf("%d packets sent", len(ps))
	}
}
