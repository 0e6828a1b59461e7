package sim

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

const allNodes = ^uint64(0)

// freezing returns a publisher that publishes for two seconds, and three subscribers, the last of
// which reads with a cursor. Packets are lost.
func freezing(seed uint64, f ...Freeze) Options {
	o := Simple(seed, 3, 20_000)
	o.Publishers[0].Lives[0].Stop = StopNever
	o.Publishers[0].Gap = 2 * time.Millisecond
	o.Publishers[0].StallLimit = 30 * time.Second
	o.Net.Loss, o.Net.UnicastLoss = 5*Percent, 5*Percent
	o.Subscribers[2].InPlace, o.Subscribers[2].Readers = false, []Reader{{Block: true}}
	o.Freezes = f
	return o
}

// mustBeExact checks that nothing was lost, and nothing wrong reported.
func mustBeExact(t *testing.T, o Options) *Report {
	t.Helper()
	r := mustRun(t, o)
	for cause, n := range r.Downs {
		if n > 0 || r.Gaps[cause] > 0 {
			t.Errorf("%d streams down, %d packets lost: %v, want none", n, r.Gaps[cause], events.Cause(cause))
		}
	}
	mustReleaseNone(t, r)
	if want := uint64(len(o.Subscribers) * 20_000); r.Messages != want {
		t.Errorf("%d messages delivered, want %d", r.Messages, want)
	}
	return r
}

// mustReleaseNone checks that the publisher has released no subscriber.
func mustReleaseNone(t *testing.T, r *Report) {
	t.Helper()
	if r.Silent > 0 || r.Released > 0 || r.ReleasedReported > 0 {
		t.Errorf("%d subscribers silent, %d released, %d releases reported, want none", r.Silent, r.Released, r.ReleasedReported)
	}
}

// A group that is frozen as a whole continues without losses after any time: while a process does
// not run, it must not conclude that others are silent. docs/protocol §11.3.
func TestFrozenGroup(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 120 * time.Second, 3600 * time.Second} {
		for name, at := range map[string]time.Duration{"in the middle": 400 * time.Millisecond, "at the end": 2 * time.Second, "idle": 3 * time.Second} {
			t.Run(d.String()+" "+name, func(t *testing.T) {
				for seed := range uint64(3) {
					mustBeExact(t, freezing(seed, Freeze{Pause{at, d}, allNodes, allNodes}))
				}
			})
		}
	}
}

// The same holds if it is frozen for a minute repeatedly, and runs in between for less than the silence limit.
func TestRepeatedFreeze(t *testing.T) {
	var again []Freeze
	for at, runs := 10*time.Millisecond, 7*time.Millisecond; len(again) < 60; at += time.Minute + runs {
		again = append(again, Freeze{Pause{at, time.Minute}, allNodes, allNodes})
		runs = runs * 11 / 10
	}
	for seed := range uint64(3) {
		mustBeExact(t, freezing(seed, again...))
	}
}

// Complete replies arrive however long requesters and responders are frozen. docs/protocol §24.4.
func TestFrozenRequests(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 3600 * time.Second} {
		for seed := range uint64(3) {
			o := freezing(seed, Freeze{Pause{400 * time.Millisecond, d}, allNodes, allNodes})
			o.Net.UnicastLoss = 50 * Percent
			o.Publishers[0].Requests = 20 * Percent
			for i := range o.Subscribers {
				o.Subscribers[i].Reply, o.Subscribers[i].Think = 100, time.Millisecond
			}
			if r := mustRun(t, o); r.Replies == 0 {
				t.Error("no replies")
			}
		}
	}
}

// The subscribers of a frozen publisher report it as lost, because it is silent. When it continues
// it releases none of them, and they continue where they stopped.
func TestFrozenPublisher(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 120 * time.Second, 3600 * time.Second} {
		o := freezing(1, Freeze{Pause{400 * time.Millisecond, d}, allNodes, 0})
		o.Net.Loss = 0
		r := mustRun(t, o)
		mustReleaseNone(t, r)
		if r.Downs[events.CausePublisherLost] != 3 || r.Messages != 60_000 {
			t.Errorf("%v: %d streams lost, %d messages delivered, want 3 and 60,000", d, r.Downs[events.CausePublisherLost], r.Messages)
		}
	}
}

// A frozen subscriber is released. When it continues it has exact gaps, and reports no publisher as lost.
func TestFrozenSubscriber(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 120 * time.Second, 3600 * time.Second} {
		o := freezing(1, Freeze{Pause{400 * time.Millisecond, d}, 0, 0b110})
		o.Publishers[0].Gap = 20 * time.Millisecond
		for i := range o.Subscribers {
			o.Subscribers[i].Pauses = []Pause{{400 * time.Millisecond, d}} // expect their losses
		}
		o.Subscribers[0].Pauses = nil
		r := mustRun(t, o)
		if r.Silent != 2 || r.Messages+r.GapMessages != 60_000 {
			t.Errorf("%v: %d silent, %d messages delivered, %d lost, want 2, and 60,000 delivered or lost", d, r.Silent, r.Messages, r.GapMessages)
		}
		for cause, n := range r.Downs {
			if n > 0 {
				t.Errorf("%v: %d streams down: %v, want none", d, n, events.Cause(cause))
			}
		}
	}
}

// A reader blocks its publisher for ten seconds of running time, which is less than the limit; in
// between the group is frozen.
func TestFrozenWhileBlocked(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 120 * time.Second, 3600 * time.Second} {
		for name, frozen := range map[string]uint64{"the group": allNodes, "the publisher": 0} {
			o := freezing(1, Freeze{Pause{5 * time.Second, d}, allNodes, frozen})
			o.Net.Loss = 0
			o.Publishers[0].Window = 64
			x := &o.Subscribers[2]
			x.Window = 100 * 1472
			x.Readers[0].Stops = []Pause{{50 * time.Millisecond, d + 10*time.Second}}
			r := mustRun(t, o)
			if mustReleaseNone(t, r); r.Messages != 60_000 || r.HeldReported > 10*time.Second {
				t.Errorf("%s for %v: %d messages delivered, blocked for %v, want 60,000, blocked at most 10 s", name, d, r.Messages, r.HeldReported)
			}
		}
	}
}
