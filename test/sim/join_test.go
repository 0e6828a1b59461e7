package sim

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// busyFeed returns a publisher that sends continuously at a good half of the network's rate, with one live subscriber.
func busyFeed(seed uint64) Options {
	o := Simple(seed, 1, 30_000)
	o.Net.Bandwidth = 100_000_000
	o.Net.Loss, o.Net.UnicastLoss = Percent, Percent
	p := &o.Publishers[0]
	p.Topics, p.Burst, p.Gap, p.Size = 3, 50, 100*time.Microsecond, [2]int{80, 120}
	return o
}

// joiners adds subscribers that request the window, the i-th after at(i).
func joiners(o *Options, n int, at func(i int) time.Duration) {
	for i := range n {
		s := o.Subscribers[0]
		s.Window, s.Memory, s.FromWindow, s.Topics = 4<<20, 64<<20, true, 3
		if i%3 == 2 {
			s.From = 1 + uint64(i)*100
		}
		if i%2 == 1 {
			s.InPlace, s.Readers = false, []Reader{{Block: true}}
		}
		s.Stays = []Stay{{After: at(i), Stop: StopNever}}
		o.Subscribers = append(o.Subscribers, s)
	}
}

// 1,000 subscribers join at any time during a feed with losses: each gets all messages from the beginning of the window
// on, in order and once, or exact reports of losses. The checks are in feed.go and join.go. docs/protocol §4.6, §4.8.
func TestThousandJoins(t *testing.T) {
	t.Parallel()
	runs, each := 50, 20
	if testing.Short() {
		runs = 5
	}
	fetched, gaps := uint64(0), uint64(0)
	for i := range runs {
		o := busyFeed(uint64(i))
		o.Publishers[0].Lives[0].Messages, o.Publishers[0].Window = 8000, 256
		joiners(&o, each, func(j int) time.Duration { return 2*time.Millisecond + time.Duration(j*runs+i)*12*time.Microsecond })
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Receiver.History == 0 {
			t.Errorf("run %d: no packet was fetched", i)
		}
		fetched += r.Receiver.History
		for cause, n := range r.Gaps {
			if cause := events.Cause(cause); cause != events.CauseGone {
				gaps += n
			}
		}
	}
	t.Logf("%d joins fetched %d packets; %d were lost for other reasons than that the publisher no longer had them", runs*each, fetched, gaps)
}

// Joining subscribers hardly delay the messages of others. docs/protocol §6.13, §8.10.
func TestTwentyJoinAtOnce(t *testing.T) {
	run := func(n int) *Report {
		o := busyFeed(8)
		joiners(&o, n, func(int) time.Duration { return 20 * time.Millisecond })
		return mustRun(t, o)
	}
	alone, joined := run(0), run(20)
	if a, b := alone.Latency(99), joined.Latency(99); b > 2*a {
		t.Errorf("p99 latency %v while others join, %v without joins, want at most twice as long", b, a)
	} else {
		t.Logf("p99 latency %v while others join, %v without joins", b, a)
	}
	once, again := joined.Sender.RepairsSent-alone.Sender.RepairsSent, joined.Receiver.History
	if again == 0 || once > again/5 {
		t.Errorf("one joiner causes %d repairs, 20 cause %d: they do not share repairs", once, again)
	}
}

// Flow control does not wait for a joiner while it fetches packets, and waits for it afterwards. docs/protocol §8.10.
// docs/protocol §8.10.
func TestPublisherWaitsForJoinedSubscriber(t *testing.T) {
	o := Simple(3, 1, 200_000)
	o.Subscribers[0].Stays[0] = Stay{Stop: StopEnd, For: 5 * time.Millisecond}
	joiners(&o, 1, func(int) time.Duration { return 3 * time.Millisecond })
	o.Subscribers[1].InPlace, o.Subscribers[1].Readers = false, []Reader{{Block: true, Delay: 20 * time.Microsecond}}
	o.Subscribers[1].Window, o.Subscribers[1].Memory = 64*1472, 512*1472
	o.Publishers[0].Window = 32
	r := mustRun(t, o)
	if r.Receiver.History == 0 || r.Receiver.Lost > 0 || r.Sender.FlowBlocked == 0 {
		t.Errorf("%d packets fetched, %d lost, the publisher blocked %d times, want some, none and some times", r.Receiver.History, r.Receiver.Lost, r.Sender.FlowBlocked)
	}
}
