package sim

import (
	"hash/fnv"
	"reflect"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	if *traceFlag {
		o.Trace = t.Output()
	}
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	return r
}

// rtts returns d in round trips.
func rtts(o *Options, d time.Duration) float64 { return float64(d) / float64(o.Net.RTT()) }

// A seed gives the same run each time: the same report, and the same trace.
func TestSameSeedSameRun(t *testing.T) {
	run := func(seed uint64) (*Report, uint64) {
		o, trace := Draw(seed), fnv.New64a()
		o.Trace = trace
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		return r, trace.Sum64()
	}
	for seed := range uint64(50) {
		a, x := run(seed)
		b, y := run(seed)
		if x != y || !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d yields different runs, with traces %x and %x:\n%v\n%v", seed, x, y, a, b)
		}
	}
}

func TestSoundNetworkNeedsNoRepair(t *testing.T) {
	o := Simple(1, 4, 50_000)
	r := mustRun(t, o)
	if r.Sender.RepairsSent+r.Receiver.NAKs+r.Receiver.Duplicates+r.Net.Overflowed > 0 {
		t.Errorf("%d repairs, %d NAKs, %d duplicates, %d overflows without loss", r.Sender.RepairsSent, r.Receiver.NAKs, r.Receiver.Duplicates, r.Net.Overflowed)
	}
	if r.Messages != 4*50_000 {
		t.Errorf("%d messages, want %d", r.Messages, 4*50_000)
	}
}

// Repair traffic and repair times with 8 subscribers.
func TestRepairTrafficAndTime(t *testing.T) {
	for _, c := range []struct {
		name                 string
		shared, own, unicast Ratio
		run                  int
		naks, repairs        float64 // maximum for each lost packet
		p50, p99             float64 // maximum in round trips
	}{
		{"independent 1%", 0, Percent, Percent, 1, 2, 2, 5, 20},
		{"bursts 1%", 0, Percent, Percent, 8, 2, 2, 5, 20},
		{"shared 1%", Percent, 0, Percent, 1, 4, 2, 5, 30},
		{"both", Percent / 2, Percent / 2, Percent, 1, 3, 2, 5, 20},
		{"independent 5%", 0, 5 * Percent, 5 * Percent, 1, 2, 2, 5, 50},
		// At least one of 8 subscribers loses more than half of all packets: repairs are limited by their share of the data.
		{"independent 10%", 0, 10 * Percent, 10 * Percent, 1, 2, 2, 30, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Simple(3, 8, 200_000)
			if testing.Short() {
				o = Simple(3, 8, 100_000)
			}
			o.Net.SharedLoss, o.Net.Loss, o.Net.UnicastLoss, o.Net.Run = c.shared, c.own, c.unicast, c.run
			r := mustRun(t, o)
			p50, p99 := rtts(&o, r.RepairTime(50)), rtts(&o, r.RepairTime(99))
			t.Logf("%.2f NAKs and %.2f repairs for each lost packet; repair time p50 %.1f p99 %.1f RTT; latency p50 %v p99 %v",
				r.NAKsPerLoss(), r.RepairsPerLoss(), p50, p99, r.Latency(50), r.Latency(99))
			if r.NAKsPerLoss() > c.naks || r.RepairsPerLoss() > c.repairs {
				t.Errorf("want at most %v NAKs and %v repairs for each lost packet", c.naks, c.repairs)
			}
			if p50 > c.p50 || p99 > c.p99 {
				t.Errorf("want repair times of at most p50 %v, p99 %v RTT", c.p50, c.p99)
			}
		})
	}
}

// Round trips far longer than in a LAN, and growing ones, do not cause repeated requests or
// repairs. docs/protocol §6.12.
func TestRepairTrafficFarAway(t *testing.T) {
	for _, latency := range []time.Duration{2 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			o := Simple(3, 2, 50_000)
			o.Net.Latency = latency
			o.Net.Loss, o.Net.UnicastLoss = 5*Percent, 5*Percent
			o.Publishers[0].Gap = 2 * time.Millisecond // 20 messages in a packet
			r := mustRun(t, o)
			t.Logf("%.2f NAKs and %.2f repairs for each of %d lost packets; repair time p50 %.1f p99 %.1f RTT",
				r.NAKsPerLoss(), r.RepairsPerLoss(), r.Receiver.Missing, rtts(&o, r.RepairTime(50)), rtts(&o, r.RepairTime(99)))
			// Some requests are premature while the round trip is unknown.
			if r.NAKsPerLoss() > 2.5 || r.RepairsPerLoss() > 1.5 {
				t.Errorf("want at most 2.5 NAKs and 1.5 repairs for each lost packet")
			}
			if r.Receiver.Lost > 0 {
				t.Errorf("%d packets lost permanently, want none", r.Receiver.Lost)
			}
		})
	}
}

// The loss of the last packet of a burst is detected within 10 round trips and 200 microseconds. docs/protocol §5.1.
func TestTailLossIsFound(t *testing.T) {
	for _, latency := range []time.Duration{2 * time.Microsecond, 20 * time.Microsecond, 200 * time.Microsecond, 2 * time.Millisecond} {
		for lost := range uint64(3) {
			o := Simple(1, 2, 1000) // the last ones are in packet 49
			o.Publishers[0].Lives[0].Stop = StopNever
			o.Net.Latency = latency
			last := uint64(49)
			o.Drop = func(subscriber int, b []byte) bool {
				seq, first := dataSeq(b)
				return subscriber == 0 && first && seq >= last-lost && seq <= last
			}
			r := mustRun(t, o)
			if r.Sender.PacketsSent != last+1 {
				t.Fatalf("%d packets, want %d", r.Sender.PacketsSent, last+1)
			}
			if d, bound := r.Latency(100), 10*o.Net.RTT()+200*time.Microsecond; d > bound {
				t.Errorf("RTT %v, %d packets lost at the end: repaired after %v, want %v", o.Net.RTT(), lost+1, d, bound)
			}
		}
	}
}

// After a burst that all have received, the intervals of heartbeats grow to one second, and so do
// those of statuses. docs/protocol §5.1, §7.2.
func TestIdleStreamGoesQuiet(t *testing.T) {
	o := Simple(1, 4, 100)
	o.Publishers[0].Lives[0].Stop = StopNever
	o.Subscribers[0].Stays[0] = Stay{Stop: StopEnd, For: 60 * time.Second} // length of the run
	r := mustRun(t, o)
	if hb := r.Sender.HeartbeatsSent; hb < 60 || hb > 60+30 {
		t.Errorf("%d heartbeats in a minute of idleness, want 60 to 90", hb)
	}
	if st := r.Receiver.Statuses; st > 4*80 {
		t.Errorf("%d statuses in a minute of idleness, want at most 320", st)
	}
	if r.Net.Packets > 260 { // of which 60 are hellos
		t.Errorf("%d multicast packets in a minute of idleness, want at most 260", r.Net.Packets)
	}
}

// Under min a slow subscriber slows the publisher, loses nothing, and its buffer does not overflow.
func TestMinFlowWaitsForTheSlowest(t *testing.T) {
	o := Simple(1, 3, 50_000)
	o.Publishers[0].Gap = time.Microsecond
	o.Subscribers[1].Service, o.Subscribers[1].Buffer = 20*time.Microsecond, 64
	r := mustRun(t, o)
	if r.Receiver.Missing > 0 || r.Receiver.Lost > 0 || r.Sender.FlowBlocked == 0 {
		t.Errorf("%d packets missing, %d lost, publisher blocked %d times, want none, none and some times", r.Receiver.Missing, r.Receiver.Lost, r.Sender.FlowBlocked)
	}
	if r.Messages != 3*50_000 {
		t.Errorf("%d messages, want %d", r.Messages, 3*50_000)
	}
	if minimum := 2500 * 20 * time.Microsecond; r.Virtual < minimum || r.Virtual > 2*minimum {
		t.Errorf("took %v, the slowest subscriber needs at least %v", r.Virtual, minimum)
	}
}

// Without flow control a slow subscriber has gaps, and the others are not affected.
func TestNoFlowWaitsForNoSubscriber(t *testing.T) {
	o := Simple(1, 3, 50_000)
	o.Publishers[0].Flow, o.Publishers[0].Window = FlowNone, 256
	o.Subscribers[1].Service, o.Subscribers[1].Buffer = 50*time.Microsecond, 64
	r := mustRun(t, o)
	if r.Sender.FlowBlocked > 0 || r.GapMessages == 0 {
		t.Errorf("publisher blocked %d times, %d messages reported lost, want never and some", r.Sender.FlowBlocked, r.GapMessages)
	}
	if got := r.Messages + r.GapMessages; got < 3*50_000-100 || got > 3*50_000 {
		t.Errorf("%d messages delivered and %d reported lost, of %d", r.Messages, r.GapMessages, 3*50_000)
	}
	if d := r.Latency(60); d > 2*o.Net.Latency {
		t.Errorf("latency of the two fast subscribers is %v, want at most %v", d, 2*o.Net.Latency)
	}
}

// A publisher that waits for tagged subscribers is slowed by a slow tagged one, not by untagged
// ones, which have exact gaps. docs/protocol §8.11.
func TestTaggedFlow(t *testing.T) {
	for _, tagged := range []bool{false, true} {
		o := Simple(1, 3, 50_000)
		o.Publishers[0].Tagged, o.Publishers[0].Window, o.Publishers[0].Gap = true, 256, time.Microsecond
		o.Subscribers[0].Tagged, o.Subscribers[2].Tagged = true, true
		o.Subscribers[1].Service, o.Subscribers[1].Buffer, o.Subscribers[1].Tagged = 50*time.Microsecond, 64, tagged
		r := mustRun(t, o)
		if got := r.Messages + r.GapMessages; got < 3*50_000-100 || got > 3*50_000 || (r.GapMessages == 0) != tagged {
			t.Errorf("slow subscriber tagged: %v; %d messages delivered and %d reported lost, of %d", tagged, r.Messages, r.GapMessages, 3*50_000)
		}
		if minimum := 2000 * 50 * time.Microsecond; (r.Sending >= minimum) != tagged {
			t.Errorf("slow subscriber tagged: %v; sending took %v, the slow one needs more than %v", tagged, r.Sending, minimum)
		}
	}
}

// Under min a subscriber that dies blocks the publisher only up to the silence limit; the others
// receive everything. docs/protocol §8.4.
func TestDeadSubscriberIsReleased(t *testing.T) {
	o := Simple(1, 3, 50_000)
	o.Publishers[0].Gap = 10 * time.Microsecond
	o.Subscribers[2].Stays[0] = Stay{Stop: StopKill, For: 5 * time.Millisecond}
	r := mustRun(t, o)
	if r.Silent != 1 || r.Messages < 2*50_000 {
		t.Errorf("%d silent, %d messages, want 1 and at least 100,000", r.Silent, r.Messages)
	}
	if worst := r.Latency(100); worst > 100*time.Millisecond {
		t.Errorf("longest latency %v, want at most 100 ms", worst)
	}
	if r.Virtual < time.Second || r.Virtual > 1500*time.Millisecond {
		t.Errorf("took %v, the silence limit is 1s", r.Virtual)
	}
}

// A subscriber that stops for a while and continues has lost nothing.
func TestPublisherWaitsForPausedSubscriber(t *testing.T) {
	o := Simple(1, 2, 50_000)
	o.Subscribers[1].Pauses = []Pause{{At: 5 * time.Millisecond, For: 400 * time.Millisecond}}
	r := mustRun(t, o)
	if r.Messages != 2*50_000 || r.Receiver.Lost > 0 || r.Silent > 0 {
		t.Errorf("%d messages, %d packets lost, %d silent, want 100,000, none and none", r.Messages, r.Receiver.Lost, r.Silent)
	}
}

func TestKilledPublisherRestarts(t *testing.T) {
	o := Simple(1, 3, 50_000)
	o.Net.Loss = Percent
	o.Publishers[0].Lives = []Life{
		{After: time.Millisecond, Messages: 50_000, Stop: StopKill, For: 10 * time.Millisecond},
		{After: time.Millisecond, Messages: 1000, Stop: StopKill, For: 2 * time.Second},
		{After: 10 * time.Second, Messages: 1000, Stop: StopEnd},
	}
	r := mustRun(t, o)
	if r.Downs[events.CauseRestart] != 3 || r.Downs[events.CausePublisherLost] != 3 || r.Downs[events.CauseNone] != 3 {
		t.Errorf("streams down by cause: %v, want 3 each of a restart, a lost publisher and none", r.Downs)
	}
	if r.Receiver.Restarts != 3 {
		t.Errorf("%d restarts seen, want 3", r.Receiver.Restarts)
	}
}

// docs/protocol §9.1, §10.4.
func TestNothingIsSilentlyLostAtHeavyLoss(t *testing.T) {
	o := Simple(1, 4, 30_000)
	o.Net.Loss, o.Net.UnicastLoss, o.Net.Duplicate, o.Net.Reorder, o.Net.ReorderDepth = 30*Percent, 30*Percent, 2*Percent, 5*Percent, 16
	o.Net.Run = 4
	r := mustRun(t, o)
	if r.Receiver.LostDeadline > 0 || r.Receiver.LostOverrun > 0 {
		t.Errorf("gaps by cause %v, want none of a deadline or an overrun", r.Gaps)
	}
}

func TestThirtyTwoPublishers(t *testing.T) {
	o := Simple(1, 2, 2000)
	p := o.Publishers[0]
	p.Gap = 100 * time.Microsecond
	o.Publishers = nil
	for range 32 {
		o.Publishers = append(o.Publishers, p)
	}
	for i := range o.Subscribers {
		// much less than 32 windows of 1 MiB
		o.Subscribers[i].Memory, o.Subscribers[i].Streams = 8<<20, 40
	}
	o.Net.Loss = Percent
	r := mustRun(t, o)
	if r.Receiver.StreamsRefused > 0 || r.Receiver.Lost > 0 || r.Messages < 2*32*2000*99/100 {
		t.Errorf("%d streams refused, %d packets lost, %d messages, want none, none and 99 %% of 128,000", r.Receiver.StreamsRefused, r.Receiver.Lost, r.Messages)
	}
}

func TestLargeMessages(t *testing.T) {
	o := Simple(1, 2, 40)
	o.Net.Loss, o.Net.Bandwidth, o.Net.Egress = 2*Percent, 1e9, 100
	p := &o.Publishers[0]
	p.Large, p.LargeBytes, p.Topics, p.Writers, p.Gap, p.Await = Always/2, 2<<20, 3, 2, time.Millisecond, 2
	for i := range o.Subscribers {
		o.Subscribers[i].Topics = 3
	}
	r := mustRun(t, o)
	if r.Receiver.Lost > 0 {
		t.Errorf("%d packets lost, want none", r.Receiver.Lost)
	}
	o.Subscribers[0].Max = 100_000
	if r = mustRun(t, o); r.GapMessages == 0 {
		t.Error("messages beyond the limit were not reported as lost")
	}
}

// Messages slightly larger than a packet share packets, even with loss: a message takes little more
// than its share, and trains are long. docs/protocol §10.1.
func TestMessagesAboveAPacket(t *testing.T) {
	for _, writers := range []int{1, 3} {
		o := Simple(1, 2, 3000)
		o.Net.Loss = Percent
		p := &o.Publishers[0]
		p.EqualTrains, p.Writers, p.Burst, p.Size = true, writers, 60, [2]int{1403, 1600}
		r := mustRun(t, o)
		sent := uint64(3000 * writers)
		if r.Messages != 2*sent || r.Receiver.Lost > 0 {
			t.Errorf("%d messages arrived, want twice %d; %d packets lost", r.Messages, sent, r.Receiver.Lost)
		}
		if 100*r.Sender.PacketsSent > 125*sent {
			t.Errorf("%d packets for %d messages of 1403 to 1600 bytes, want at most 1.25 for each", r.Sender.PacketsSent, sent)
		}
	}
}

// Readers of one process do not delay each other: a slow one that is not blocking is overtaken; the
// others, in place and through cursors, do not wait.
func TestSlowReaderIsOvertaken(t *testing.T) {
	o := Simple(1, 1, 50_000)
	o.Subscribers[0].Readers = []Reader{{Delay: 200 * time.Microsecond}, {Block: true}}
	r := mustRun(t, o)
	if r.Gaps[events.CauseSlowConsumer] == 0 || r.Sender.FlowBlocked > 0 {
		t.Errorf("gaps by cause %v, publisher blocked %d times, want some of a slow consumer, and never", r.Gaps, r.Sender.FlowBlocked)
	}
	if d := r.Latency(80); d > 2*o.Net.Latency {
		t.Errorf("latency of the two fast readers is %v, want at most %v", d, 2*o.Net.Latency)
	}
	// If it blocks, it slows the publisher down.
	o.Subscribers[0].Readers[0].Block = true
	r = mustRun(t, o)
	if r.Receiver.Lost > 0 || r.Gaps[events.CauseSlowConsumer] > 0 || r.Sender.FlowBlocked == 0 {
		t.Errorf("gaps by cause %v, publisher blocked %d times, want none of a slow consumer, and some times", r.Gaps, r.Sender.FlowBlocked)
	}
}

// A loss that cannot be repaired is reported as soon as the publisher knows, and the stream
// continues. docs/protocol §9.1.
func TestGoneIsReported(t *testing.T) {
	o := Simple(1, 1, 20_000)
	o.Publishers[0].Flow, o.Publishers[0].Window = FlowNone, 64
	// The packets are lost, and their repairs for longer than the window has them.
	o.Drop = func(_ int, b []byte) bool {
		seq, _ := dataSeq(b)
		return seq == 100 || seq >= 200 && seq < 230
	}
	r := mustRun(t, o)
	if r.Gaps[events.CauseGone] != 31 {
		t.Errorf("gaps by cause %v, want 31 of %v", r.Gaps, events.CauseGone)
	}
	if r.GapMessages != 31*20 {
		t.Errorf("%d messages reported lost, want %d", r.GapMessages, 31*20)
	}
	if d := r.Latency(100); d > 5*time.Millisecond {
		t.Errorf("the stream was stalled for %v, want at most 5 ms", d)
	}
}

func TestDeadlineEndsWaits(t *testing.T) {
	o := Simple(1, 2, 2000)
	o.Publishers[0].Lives[0].Stop = StopNever
	o.Subscribers[0].Deadline = 50 * time.Millisecond
	o.Drop = func(subscriber int, b []byte) bool {
		seq, _ := dataSeq(b)
		return subscriber == 0 && seq == 40
	}
	r := mustRun(t, o)
	if r.Gaps[events.CauseDeadline] != 1 || r.GapMessages != 20 {
		t.Errorf("gaps by cause %v, %d messages, want 1 of a deadline, with 20", r.Gaps, r.GapMessages)
	}
	// The loss is detected only after the tail, so the wait is a little longer.
	if d := r.Latency(100); d < 50*time.Millisecond || d > 55*time.Millisecond {
		t.Errorf("the stream was stalled for %v, want 50 to 55 ms", d)
	}
}

// A subscriber that is cut off for less than the silence limit loses nothing.
func TestShortCutIsRepaired(t *testing.T) {
	o := Simple(1, 3, 50_000)
	o.Cuts = []Cut{{At: 5 * time.Millisecond, For: 150 * time.Millisecond, Publisher: -1, Subscribers: 2, Up: true, Down: true}}
	r := mustRun(t, o)
	if r.Messages != 3*50_000 || r.Receiver.Lost > 0 {
		t.Errorf("%d messages, %d packets lost, want %d and none", r.Messages, r.Receiver.Lost, 3*50_000)
	}
}

// During steady data, repairs have a share of the data rate: a cut is repaired completely if it is shorter
// than that share of the recovery deadline. pubsub.Config.RecoveryDeadline; docs/protocol §6.11, §9.1.
func TestCutIsRepairedWithinTheDeadline(t *testing.T) {
	for _, c := range []struct {
		cut, deadline time.Duration
		lost          uint64 // messages and packets, approximately
	}{
		{950 * time.Millisecond, defaultDeadline, 0},
		{1500 * time.Millisecond, defaultDeadline, 500},
		{1450 * time.Millisecond, 3 * time.Second, 0},
	} {
		o := Simple(1, 1, 6000)
		p := &o.Publishers[0]
		p.Burst, p.Gap, p.Size, p.Window, p.Silence = 1, time.Millisecond, [2]int{1400, 1400}, 8192, 20*time.Second
		x := &o.Subscribers[0]
		x.Window, x.Memory, x.Buffer, x.Deadline = 8<<20, 64<<20, 32768, c.deadline // a window larger than a cut loses
		o.Cuts = []Cut{{At: time.Second, For: c.cut, Publisher: -1, Subscribers: 1, Up: true, Down: true}}
		r := mustRun(t, o)
		if n := r.GapMessages; n > c.lost || n+20 < c.lost || n != r.Gaps[events.CauseDeadline] || r.Silent > 0 {
			t.Errorf("%v with %v: %d messages lost, want %d; packets by cause %v", c.cut, c.deadline, n, c.lost, r.Gaps)
		}
	}
}

// An attacker that floods the group with all kinds of packets only changes counters. docs/protocol §13.1, §19.2.
func TestAttackChangesNothing(t *testing.T) {
	o := Simple(1, 3, 50_000)
	o.Checksum = true
	for i := range o.Subscribers {
		o.Subscribers[i].Streams, o.Subscribers[i].Memory = 8, 4<<20
	}
	o.Attack = Attack{Every: 5 * time.Microsecond, Garbage: true, Truncate: true, Damage: true, Replay: true, Far: true, Forge: true}
	o.Faults = 40 * time.Millisecond
	r := mustRun(t, o)
	if r.Messages < 3*50_000 || r.Receiver.Lost > r.Gaps[events.CauseOverrun]+r.Gaps[events.CausePublisherLost] {
		t.Errorf("%d messages, gaps by cause %v, want at least %d, and only overruns and lost publishers", r.Messages, r.Gaps, 3*50_000)
	}
	x := &r.Receiver
	if x.Malformed == 0 || x.Damaged == 0 || x.Duplicates == 0 || x.StreamsRefused == 0 || x.Foreign == 0 {
		t.Errorf("a kind of attack was not counted: %+v", *x)
	}
}
