package sim

import (
	"testing"
	"time"
)

// twoLegs returns a sound network with a second leg that is a little slower.
func twoLegs(messages int) Options {
	o := Simple(4, 2, messages)
	second := o.Net
	second.Latency += 40 * time.Microsecond
	o.Second = &second
	return o
}

// Two legs lose a fifth each, with skew and jitter: subscribers request what both have lost, 4 %,
// and almost nothing else. docs/protocol §23.4.
func TestLegsRequestOnlyCommonLosses(t *testing.T) {
	o := twoLegs(100_000)
	o.Net.Loss, o.Second.Loss = 20*Percent, 20*Percent
	o.Net.UnicastLoss, o.Second.UnicastLoss = Percent, Percent
	o.Net.Jitter, o.Second.Jitter = 5*time.Microsecond, 5*time.Microsecond
	o.Net.Duplicate, o.Second.Duplicate = Percent, Percent
	r := mustRun(t, o)
	packets := float64(r.Sender.PacketsSent * uint64(len(o.Subscribers)))
	asked, early := float64(r.Requested)/packets, float64(r.RequestedEarly)/packets
	t.Logf("%.4f of the packets are requested, %.4f without a loss on both legs", asked, early)
	if asked < 0.03 || asked > 0.05 || early > 0.005 || r.Receiver.Lost > 0 || r.LegsDown > 0 {
		t.Errorf("%.4f of the packets are requested, want 0.03 to 0.05; %.4f without a loss on both legs; %d packets lost, %d legs reported silent", asked, early, r.Receiver.Lost, r.LegsDown)
	}
}

// Under load one leg is cut and restored, for longer than the silence limit, then the other:
// nothing is lost or duplicated, no message is delayed, and events report it. docs/protocol §23.7.
func TestLegCut(t *testing.T) {
	o := twoLegs(100_000)
	o.Publishers[0].Gap = time.Millisecond // 5 s
	for leg := range 2 {
		o.Cuts = append(o.Cuts, Cut{
			At: time.Duration(1+2*leg) * time.Second, For: time.Second, Leg: 1 + leg, Publisher: -1, Subscribers: 3, Up: true, Down: true,
		})
	}
	r := mustRun(t, o)
	if r.Messages != 2*100_000 || r.Receiver.Lost > 0 || r.Silent > 0 {
		t.Errorf("%d messages, %d lost, %d silent, want 200,000, none and none", r.Messages, r.Receiver.Lost, r.Silent)
	}
	if r.LegsDown != 4 || r.LegsBack != 4 {
		t.Errorf("%d reports that a leg is silent and %d that it is active again, want 4 each", r.LegsDown, r.LegsBack)
	}
	if d := r.Latency(100); d > 25*time.Millisecond { // the skew delays one message
		t.Errorf("a message took %v, want at most 25 ms", d)
	}
}

// A leg delivers heartbeats but no data for two seconds, as shared memory does when it is full: the other one
// delivers everything, also from a publisher without flow control and with a small window. docs/protocol §23.4.
func TestLegWithoutData(t *testing.T) {
	o := twoLegs(100_000)
	p := &o.Publishers[0]
	p.Gap, p.Flow, p.Window = time.Millisecond, FlowNone, 16 // 5 s
	o.Cuts = []Cut{{At: time.Second, For: 2 * time.Second, Leg: 2, Publisher: -1, Subscribers: 3, Down: true, Data: true}}
	r := mustRun(t, o)
	if r.Messages != 2*100_000 || r.Receiver.Lost > 0 || r.Requested > 0 || r.LegsDown > 0 {
		t.Errorf("%d messages, %d packets lost, %d requested, %d legs reported silent, want 200,000 and none of the others", r.Messages, r.Receiver.Lost, r.Requested, r.LegsDown)
	}
}

// A subscriber with only the second leg receives a publisher with both, and loses nothing under
// flow control. docs/protocol §23.8.
func TestOnlyTheSecondLeg(t *testing.T) {
	o := twoLegs(50_000)
	o.Net.Loss, o.Second.Loss, o.Second.UnicastLoss = 5*Percent, 5*Percent, 5*Percent
	o.Subscribers[1].Only = 2
	r := mustRun(t, o)
	if r.Messages != 2*50_000 || r.Receiver.Lost > 0 {
		t.Errorf("%d messages, %d packets lost, want 100,000 and none", r.Messages, r.Receiver.Lost)
	}
}
