package pubsub

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Trace reports each step of lost packets, and the distributions count it.
func TestTraceOfLosses(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	var mu sync.Mutex
	counts := make(map[string]uint64) // under mu
	add := func(what string, n uint64) {
		mu.Lock()
		counts[what] += n
		mu.Unlock()
	}
	loss := func(what string) func(TraceLoss) {
		return func(x TraceLoss) {
			if x.Name != "feed" || x.Group == "" || x.Publisher == 0 || x.Epoch == 0 {
				t.Errorf("%s: loss %+v, want feed with its group, publisher and epoch", what, x)
			}
			add(what, x.Packets)
		}
	}
	a := openBus(t, Config{Name: "feed", Trace: &Trace{
		Sent: func(x TraceSent) {
			what := "sent"
			if x.Repair {
				what = "repairs"
			}
			if add(what, uint64(x.Packets)); x.Bytes == 0 || x.Group == "" {
				t.Errorf("%s: %+v, want bytes and a group", what, x)
			}
		},
		NAKReceived: func(x TraceNAK) { add("asked", x.Packets) },
	}}, url)
	b := openBus(t, Config{Faults: "loss=0.1,seed=7", Trace: &Trace{
		Missing: loss("missing"), NAKSent: loss("nak"), Repaired: loss("repaired"), Delivered: loss("delivered"), Lost: loss("lost"),
	}}, url)
	sub, p := subscribe(t, b, "x"), publisher(t, a, "x")
	wait(t, ctx, p, 1)
	const n = 500
	for i := range n {
		publish(t, ctx, p, fmt.Sprint(i))
		if i%3 == 0 { // several messages in a packet
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		want(t, ctx, sub, fmt.Sprint(i))
	}
	var sa, sb stats.Bus
	var g *stats.Group
	var pub *stats.Publication
	for wrong := "nothing is counted"; wrong != ""; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("counters do not agree with the trace: %s", wrong)
		}
		sa, sb = a.Stats(), b.Stats()
		g, pub, wrong = &sb.Groups[0], &sa.Publications[0], ""
		mu.Lock()
		for what, want := range map[string]uint64{
			"sent": pub.PacketsSent, "repairs": pub.RepairsSent, "asked": pub.NAKPackets + pub.NAKGone,
			"missing": g.Missing, "nak": g.NAKPackets, "repaired": g.Repaired, "delivered": g.Repaired, "lost": 0,
		} {
			if counts[what] != want { // a superfluous repair may be on its way
				wrong = fmt.Sprintf("%s: traced %d packets, %d are counted", what, counts[what], want)
			}
		}
		mu.Unlock()
		if sa.Distributions.StatusRTT.Count == 0 {
			wrong = "no round trip of a status is measured"
		}
	}
	if g.Repaired == 0 {
		t.Fatal("nothing was repaired")
	}
	d, e := &sb.Distributions, &sa.Distributions
	if d.Repair.Count != g.Repaired || d.LossDelivery.Count != g.Repaired || d.LossNAK.Count == 0 || d.LossRepair.Count == 0 || sb.Repair.Count != int64(g.Repaired) {
		t.Errorf("delays %+v, want as many as the %d repairs", d, g.Repaired)
	}
	if e.PacketMessages.Count != pub.PacketsSent || e.PacketMessages.Sum != n || e.TrainPackets.Sum != float64(pub.PacketsSent) {
		t.Errorf("distributions %+v, want %d packets with %v messages", e, pub.PacketsSent, n)
	}
	if m := sb.Repair; m.P50 <= 0 || m.P50 > m.P99 || m.P99 > m.Max || m.Max > time.Minute {
		t.Errorf("repair times %+v, want them positive, in ascending order and at most 1 min", m)
	}
}

// Trace.Lost has the cause of a permanent loss; an empty Trace is like none.
func TestTraceOfPermanentLoss(t *testing.T) {
	ctx := testContext(t)
	url := udpURL(t)
	lost := make(chan TraceLoss, 100)
	b := openBus(t, Config{RecoveryDeadline: 20 * time.Millisecond, Trace: &Trace{Lost: func(x TraceLoss) { lost <- x }}}, url)
	openBus(t, Config{Trace: &Trace{}}, url)
	subscribe(t, b, "x")
	w := newRawPublisher(t, b.Stats().Groups[0].Address)
	for b.Stats().Groups[0].Packets == 0 { // until the group is joined
		w.publish("first")
		time.Sleep(time.Millisecond)
	}
	w.lose(3)
	w.publish("reveals the loss")
	select {
	case x := <-lost:
		if x.Packets != 3 || x.Cause != events.CauseDeadline {
			t.Errorf("loss %+v, want 3 packets of cause %v", x, events.CauseDeadline)
		}
	case <-ctx.Done():
		t.Fatal("Lost was not called")
	}
}
