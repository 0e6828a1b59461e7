package sim

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// stateJoiners adds subscribers that begin with state, the i-th after at(i).
func stateJoiners(o *Options, n int, at func(i int) time.Duration) {
	for i := range n {
		s := o.Subscribers[0]
		s.Window, s.Memory, s.FromState, s.Topics = 4<<20, 64<<20, true, 3
		if i%2 == 1 {
			s.InPlace, s.Readers = false, []Reader{{Block: true}}
		}
		if i%4 >= 2 {
			s.Topics, s.Patterns = 0, []Pattern{{Text: ">"}}
		}
		s.Stays = []Stay{{After: at(i), Stop: StopNever}}
		o.Subscribers = append(o.Subscribers, s)
	}
}

// 1,000 subscribers join with state at any time during a feed at a good half of the network's rate, with
// losses, half of them by a pattern: each gets the state of each topic as of the stated number, and all
// messages from there on. The checks are in state.go and feed.go. docs/protocol §25.2 to §25.6, §25.9.
func TestThousandJoinsWithState(t *testing.T) {
	runs, each := 50, 20
	if testing.Short() {
		runs = 5
	}
	var all Report
	for i := range runs {
		o := busyFeed(uint64(i))
		p := &o.Publishers[0]
		o.Net.Bandwidth, p.Rate = 20_000_000, 20_000_000
		p.Burst, p.Size, p.Lives[0].Messages, p.State = 1, [2]int{800, 1200}, 900, 1+50*i
		stateJoiners(&o, each, func(j int) time.Duration { return 2*time.Millisecond + time.Duration(j*runs+i)*45*time.Microsecond })
		for k := range o.Subscribers {
			o.Subscribers[k].Window, o.Subscribers[k].Memory = 512<<10, 1<<20
		}
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		all.Add(r)
	}
	if want := uint64(3 * runs * each); all.States != want {
		t.Errorf("%d topics began with state, want %d; without state, by cause: %v", all.States, want, all.Stateless)
	}
	t.Logf("%d joins in %d rounds of %d bytes of state in all", runs*each, all.Sender.StateRounds, all.Sender.StateBytes)
}

// Joining with state hardly delays the messages of others: the state is sent once for all that
// wait. docs/protocol §25.3, §25.5.
func TestTwentyJoinWithStateAtOnce(t *testing.T) {
	run := func(n int) *Report {
		o := busyFeed(7)
		o.Publishers[0].State = 30_000
		stateJoiners(&o, n, func(int) time.Duration { return 20 * time.Millisecond })
		return mustRun(t, o)
	}
	alone, joined := run(0), run(20)
	if a, b := alone.Latency(99), joined.Latency(99); b > 2*a {
		t.Errorf("p99 latency %v while others join, %v without joins, want at most twice as long", b, a)
	} else {
		t.Logf("p99 latency %v while others join, %v without joins", b, a)
	}
	if alone.Sender.StateRounds != 0 || joined.Sender.StateRounds == 0 || joined.Sender.StateRounds > 2 || joined.States != 60 {
		t.Errorf("%d rounds, %d topics began with state, want 60", joined.Sender.StateRounds, joined.States)
	}
}

// A joiner whose window is too small for the data sent meanwhile reports that, and continues
// without state; the publisher does not wait for it. docs/protocol §25.6, §25.8.
func TestStateThatDoesNotFit(t *testing.T) {
	o := busyFeed(11)
	o.Publishers[0].State = 3_000_000
	stateJoiners(&o, 2, func(int) time.Duration { return 5 * time.Millisecond })
	for i := range o.Subscribers[1:] {
		o.Subscribers[1+i].Window, o.Subscribers[1+i].Memory = 64*1472, 512*1472
	}
	r := mustRun(t, o)
	if r.States != 0 || r.Stateless[events.StateOverrun] != 6 || r.Sender.FlowBlocked != 0 {
		t.Errorf("%d topics began with state, without by cause: %v; the publisher blocked %d times, want none, 6 overruns, and never", r.States, r.Stateless, r.Sender.FlowBlocked)
	}
}

// A subscriber that is present before the publisher can also begin with state; without state it
// misses nothing. docs/protocol §25.7.
func TestStateFromTheBeginning(t *testing.T) {
	for _, state := range []int{0, 500} {
		o := Simple(5, 1, 500)
		o.Publishers[0].State = state
		o.Publishers[0].Lives[0].Stop = StopNever
		o.Subscribers[0].FromState = true
		r := mustRun(t, o)
		if state > 0 && r.States != 1 || state == 0 && (r.Stateless[events.StateNotKept] != 1 || r.Messages != 500) {
			t.Errorf("state %d: %d, without %v; %d messages", state, r.States, r.Stateless, r.Messages)
		}
	}
}
