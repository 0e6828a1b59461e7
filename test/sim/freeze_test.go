package sim

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

const everyone = ^uint64(0)

// freezing is a publisher that publishes for two seconds, and three subscribers, the last of which reads with a cursor. Packets
// are lost.
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

// mustBeExact checks that nothing was lost and nothing told that is not so.
func mustBeExact(t *testing.T, o Options) *Report {
	t.Helper()
	r := mustRun(t, o)
	for cause, n := range r.Downs {
		if n > 0 || r.Gaps[cause] > 0 {
			t.Errorf("%d streams down, %d packets lost: %v", n, r.Gaps[cause], events.Cause(cause))
		}
	}
	mustJudgeNobody(t, r)
	if want := uint64(len(o.Subscribers) * 20_000); r.Messages != want {
		t.Errorf("%d messages delivered, want %d", r.Messages, want)
	}
	return r
}

// mustJudgeNobody checks that the publisher has let no subscriber go.
func mustJudgeNobody(t *testing.T, r *Report) {
	t.Helper()
	if r.Silent > 0 || r.Released > 0 || r.ReleasedReported > 0 {
		t.Errorf("%d subscribers silent, %d released, told %d times", r.Silent, r.Released, r.ReleasedReported)
	}
}

// A group that is frozen as a whole, however long, goes on where it stood: time in which a
// process does not run says nothing of others. docs/protocol §11.3.
func TestFrozenGroup(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 120 * time.Second, 3600 * time.Second} {
		for name, at := range map[string]time.Duration{"in the middle": 400 * time.Millisecond, "at the end": 2 * time.Second, "idle": 3 * time.Second} {
			t.Run(d.String()+" "+name, func(t *testing.T) {
				for seed := range uint64(3) {
					mustBeExact(t, freezing(seed, Freeze{Pause{at, d}, everyone, everyone}))
				}
			})
		}
	}
}

// So does one that is frozen for a minute again and again, and runs in between for less than its members may be silent.
func TestFrozenAgainAndAgain(t *testing.T) {
	var again []Freeze
	for at, runs := 10*time.Millisecond, 7*time.Millisecond; len(again) < 60; at += time.Minute + runs {
		again = append(again, Freeze{Pause{at, time.Minute}, everyone, everyone})
		runs = runs * 11 / 10
	}
	for seed := range uint64(3) {
		mustBeExact(t, freezing(seed, again...))
	}
}

// Replies that were made come, however long requesters and responders are frozen meanwhile. docs/protocol §24.4.
func TestFrozenRequests(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 3600 * time.Second} {
		for seed := range uint64(3) {
			o := freezing(seed, Freeze{Pause{400 * time.Millisecond, d}, everyone, everyone})
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

// A publisher that was frozen alone is lost to its subscribers, by its silence. When it goes on it judges none
// of them, and they go on where they stood.
func TestFrozenPublisher(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 120 * time.Second, 3600 * time.Second} {
		o := freezing(1, Freeze{Pause{400 * time.Millisecond, d}, everyone, 0})
		o.Net.Loss = 0
		r := mustRun(t, o)
		mustJudgeNobody(t, r)
		if r.Downs[events.CausePublisherLost] != 3 || r.Messages != 60_000 {
			t.Errorf("%v: %d streams lost, %d messages delivered", d, r.Downs[events.CausePublisherLost], r.Messages)
		}
	}
}

// A subscriber that was frozen alone was released. When it goes on it has exact gaps, and takes nobody for lost.
func TestFrozenSubscriber(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 120 * time.Second, 3600 * time.Second} {
		o := freezing(1, Freeze{Pause{400 * time.Millisecond, d}, 0, 0b110})
		o.Publishers[0].Gap = 20 * time.Millisecond
		for i := range o.Subscribers {
			o.Subscribers[i].Pauses = []Pause{{400 * time.Millisecond, d}} // to be excused
		}
		o.Subscribers[0].Pauses = nil
		r := mustRun(t, o)
		if r.Silent != 2 || r.Messages+r.GapMessages != 60_000 {
			t.Errorf("%v: %d fell silent, %d messages delivered, %d lost", d, r.Silent, r.Messages, r.GapMessages)
		}
		for cause, n := range r.Downs {
			if n > 0 {
				t.Errorf("%v: %d streams down: %v", d, n, events.Cause(cause))
			}
		}
	}
}

// A reader holds its publisher up for ten seconds, in the middle of which the group is frozen: that is less
// than the limit.
func TestFrozenWhileHeldUp(t *testing.T) {
	for _, d := range []time.Duration{33 * time.Second, 120 * time.Second, 3600 * time.Second} {
		for name, whom := range map[string]uint64{"the group": everyone, "the publisher": 0} {
			o := freezing(1, Freeze{Pause{5 * time.Second, d}, everyone, whom})
			o.Net.Loss = 0
			o.Publishers[0].Window = 64
			x := &o.Subscribers[2]
			x.Window = 100 * 1472
			x.Readers[0].Stops = []Pause{{50 * time.Millisecond, d + 10*time.Second}}
			r := mustRun(t, o)
			if mustJudgeNobody(t, r); r.Messages != 60_000 || r.HeldReported > 10*time.Second {
				t.Errorf("%s for %v: %d messages delivered, held up for %v", name, d, r.Messages, r.HeldReported)
			}
		}
	}
}
