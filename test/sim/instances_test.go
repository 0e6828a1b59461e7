package sim

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// twins returns two publishers with one identity that run at the same time, with n messages each.
func twins(n int, epochs ...uint64) Options {
	o := Simple(1, 2, n)
	p := o.Publishers[0]
	p.Gap = 200 * time.Microsecond
	o.Publishers = nil
	for i, e := range epochs {
		x := p
		if i > 0 {
			x.As = 1
		}
		x.Lives = []Life{{After: time.Duration(1+5*i) * time.Millisecond, Messages: n, Stop: StopEnd, Epoch: e}}
		o.Publishers = append(o.Publishers, x)
	}
	for i := range o.Subscribers {
		o.Subscribers[i].Streams, o.Subscribers[i].Memory = 32, 32<<20
	}
	return o
}

// Concurrent instances of one identity are all delivered, whatever the order of their epochs, even with packet loss.
func TestInstancesSideBySide(t *testing.T) {
	for _, epochs := range [][]uint64{{10, 20}, {20, 10}, {20, 10, 15}} {
		for _, loss := range []Ratio{0, 5 * Percent} {
			o := twins(5000, epochs...)
			o.Net.Loss = loss
			r := mustRun(t, o)
			if want := uint64(2 * 5000 * len(epochs)); r.Messages != want || r.Receiver.Lost > 0 {
				t.Errorf("epochs %v, loss %v: %d messages, want %d; %d packets lost", epochs, loss, r.Messages, want, r.Receiver.Lost)
			}
			if r.Downs[events.CauseNone] != uint64(2*len(epochs)) {
				t.Errorf("epochs %v, loss %v: streams down by cause: %v, want %d without a cause", epochs, loss, r.Downs, 2*len(epochs))
			}
		}
	}
}

// A publisher is killed and restarted, each time with its clock set further back.
func TestClockSetBack(t *testing.T) {
	o := twins(1000, 1)
	o.Publishers[0].Lives = []Life{
		{After: time.Millisecond, Messages: 1000, Stop: StopKill, For: 100 * time.Millisecond, Epoch: 3000},
		{After: 10 * time.Millisecond, Messages: 1000, Stop: StopKill, For: 100 * time.Millisecond, Epoch: 2000},
		{After: 10 * time.Millisecond, Messages: 1000, Stop: StopEnd, Epoch: 1000},
	}
	r := mustRun(t, o)
	if r.Messages != 2*3*1000 || r.Receiver.Restarts == 0 {
		t.Errorf("%d messages, %d restarts seen, want %d and some", r.Messages, r.Receiver.Restarts, 2*3*1000)
	}
}

// A subscriber is cut off from one of two instances until it reports this instance lost and removes its
// stream. After the cut, delivery continues after the last message delivered before: the missed messages
// are repaired, or are a gap. The other instance is not affected. The checker verifies the position.
func TestInstanceComesBackAfterACut(t *testing.T) {
	for _, epochs := range [][]uint64{{10, 20}, {20, 10}} {
		for _, readers := range [][]Reader{nil, {{Block: true}}} {
			o := twins(30_000, epochs...)
			for i := range o.Publishers {
				o.Publishers[i].Gap = 10 * time.Millisecond
				o.Publishers[i].Flow = FlowNone
			}
			for i := range o.Subscribers {
				o.Subscribers[i].Readers = readers
			}
			o.Cuts = []Cut{{At: 2 * time.Second, For: 10 * time.Second, Publisher: 0, Subscribers: 1, Up: true, Down: true}}
			r := mustRun(t, o)
			if r.Downs[events.CauseRestart] < 1 || r.Receiver.Streams != 2*2+1 {
				t.Errorf("epochs %v: downs %v, %d streams started: the cut had no effect", epochs, r.Downs, r.Receiver.Streams)
			}
			want := uint64(2 * 2 * 30_000 * (1 + len(readers)))
			if got := r.Messages + r.GapMessages; got > want || r.Messages < want*3/4 {
				t.Errorf("epochs %v: %d messages delivered, %d reported lost, want %d, three quarters of them delivered", epochs, r.Messages, r.GapMessages, want)
			}
		}
	}
}

// Instances are killed one after the other while another one runs: a rolling update that is rolled back repeatedly.
func TestRepeatedRollback(t *testing.T) {
	o := twins(30_000, 1<<40, 0)
	o.Publishers[0].Gap = 20 * time.Millisecond
	o.Publishers[1].Lives = nil
	for i := range 30 {
		o.Publishers[1].Lives = append(o.Publishers[1].Lives, Life{
			After: 300 * time.Millisecond, Messages: 1000, Stop: []Stop{StopKill, StopEnd}[i%2], For: 700 * time.Millisecond, Epoch: uint64(i+1)<<20 ^ uint64(i%3)<<50,
		})
	}
	r := mustRun(t, o)
	if r.Messages < 2*30_000 || r.Receiver.Lost > 0 || r.Receiver.StreamsRefused > 0 {
		t.Errorf("%d messages, %d packets lost, %d refused, want at least 60,000, none and none", r.Messages, r.Receiver.Lost, r.Receiver.StreamsRefused)
	}
}
