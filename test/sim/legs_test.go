package sim

import (
	"testing"
	"time"
)

// twoLegs is a sound network with a second leg that is a little slower.
func twoLegs(messages int) Options {
	o := Simple(4, 2, messages)
	second := o.Net
	second.Latency += 40 * time.Microsecond
	o.Second = &second
	return o
}

// Of two legs that lose a fifth each, with skew and jitter, what both lost is asked for, 4 %,
// and next to nothing else. docs/protocol §23.4.
func TestLegsAskForWhatBothLost(t *testing.T) {
	o := twoLegs(100_000)
	o.Net.Loss, o.Second.Loss = 20*Percent, 20*Percent
	o.Net.UnicastLoss, o.Second.UnicastLoss = Percent, Percent
	o.Net.Jitter, o.Second.Jitter = 5*time.Microsecond, 5*time.Microsecond
	o.Net.Duplicate, o.Second.Duplicate = Percent, Percent
	r := mustRun(t, o)
	packets := float64(r.Sender.PacketsSent * uint64(len(o.Subscribers)))
	asked, early := float64(r.Asked)/packets, float64(r.AskedEarly)/packets
	t.Logf("a share of %.4f is asked for, %.4f that a leg has not lost", asked, early)
	if asked < 0.03 || asked > 0.05 || early > 0.005 || r.Receiver.Lost > 0 || r.LegsDown > 0 {
		t.Errorf("a share of %.4f is asked for, want 0.03 to 0.05; %.4f that a leg has not lost; %d packets lost, %d legs told silent", asked, early, r.Receiver.Lost, r.LegsDown)
	}
}

// One leg is cut and restored under load, for longer than a subscriber may be cut off, then
// the other: nothing is lost or comes twice, nobody waits, and events say so. docs/protocol §23.7.
func TestLegIsCut(t *testing.T) {
	o := twoLegs(100_000)
	o.Publishers[0].Gap = time.Millisecond // 5 s
	for leg := range 2 {
		o.Cuts = append(o.Cuts, Cut{
			At: time.Duration(1+2*leg) * time.Second, For: time.Second, Leg: 1 + leg, Publisher: -1, Subscribers: 3, Up: true, Down: true,
		})
	}
	r := mustRun(t, o)
	if r.Messages != 2*100_000 || r.Receiver.Lost > 0 || r.Silent > 0 {
		t.Errorf("%d messages, %d lost, %d fell silent", r.Messages, r.Receiver.Lost, r.Silent)
	}
	if r.LegsDown != 4 || r.LegsBack != 4 {
		t.Errorf("told %d times that a leg is silent and %d times that it is back, want 4 each", r.LegsDown, r.LegsBack)
	}
	if d := r.Latency(100); d > 25*time.Millisecond { // the skew is waited for, once
		t.Errorf("a message took %v", d)
	}
}

// A leg brings heartbeats and no data for two seconds, as shared memory does when it is full: the other one brings all, also of a
// publisher that waits for nobody and has a small window. docs/protocol §23.4.
func TestLegBringsNoData(t *testing.T) {
	o := twoLegs(100_000)
	p := &o.Publishers[0]
	p.Gap, p.Flow, p.Window = time.Millisecond, FlowNone, 16 // 5 s
	o.Cuts = []Cut{{At: time.Second, For: 2 * time.Second, Leg: 2, Publisher: -1, Subscribers: 3, Down: true, Data: true}}
	r := mustRun(t, o)
	if r.Messages != 2*100_000 || r.Receiver.Lost > 0 || r.Asked > 0 || r.LegsDown > 0 {
		t.Errorf("%d messages, %d packets lost, %d asked for, %d legs told silent", r.Messages, r.Receiver.Lost, r.Asked, r.LegsDown)
	}
}

// Who is only on the second leg hears a publisher on both, and misses nothing that the
// publisher waits for. docs/protocol §23.8.
func TestOnlyTheSecondLeg(t *testing.T) {
	o := twoLegs(50_000)
	o.Net.Loss, o.Second.Loss, o.Second.UnicastLoss = 5*Percent, 5*Percent, 5*Percent
	o.Subscribers[1].Only = 2
	r := mustRun(t, o)
	if r.Messages != 2*50_000 || r.Receiver.Lost > 0 {
		t.Errorf("%d messages, %d packets lost", r.Messages, r.Receiver.Lost)
	}
}
