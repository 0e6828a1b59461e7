package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// A repair is sent again only after the previous one could have arrived: with long round trips,
// with growing ones, and with near and far subscribers. docs/protocol §6.6, §6.9.
func TestRepairsAreNotSentTwiceInARoundTrip(t *testing.T) {
	const far = 100 * time.Millisecond // one way
	for name, set := range map[string]func(o *Options){
		"long latency":    func(o *Options) { o.Net.Latency = far },
		"with jitter":     func(o *Options) { o.Net.Latency, o.Net.Jitter = far, far/5 },
		"growing latency": func(o *Options) { o.Net.Detour = Detour{At: 100 * time.Millisecond, More: far} },
		"near and far":    func(o *Options) { o.Subscribers[0].ExtraLatency, o.Subscribers[1].ExtraLatency = far, far/2 },
		"one is far":      func(o *Options) { o.Subscribers[7].ExtraLatency = far },
		"shared loss":     func(o *Options) { o.Net.Latency, o.Net.Loss, o.Net.SharedLoss = far, 0, Percent },
		"runs of losses":  func(o *Options) { o.Net.Latency, o.Net.Run = far, 8 },
		"lost statuses":   func(o *Options) { o.Net.Latency, o.Net.UnicastLoss = far, 20*Percent },
	} {
		t.Run(name, func(t *testing.T) {
			o := Simple(3, 8, 50_000)
			o.Net.Loss, o.Net.UnicastLoss = Percent, Percent
			o.Publishers[0].Gap = 2 * time.Millisecond // 20 messages in a packet
			set(&o)
			r := mustRun(t, o)
			t.Logf("%.2f NAKs and %.2f repairs for each of %d lost packets; repair time p50 %v p99 %v",
				r.NAKsPerLoss(), r.RepairsPerLoss(), r.LostPackets, r.RepairTime(50), r.RepairTime(99))
			if r.RepairsPerLoss() > 1.2 {
				t.Errorf("want at most 1.2 repairs for each lost packet")
			}
		})
	}
}

// Repairs do not fill up a link that is too slow for the data, and a publisher that waits for a
// subscriber behind it reaches the rate of the link. docs/protocol §6.6, §6.11.
func TestRepairsDoNotFillASlowLink(t *testing.T) {
	t.Parallel()
	const link = 10e6 / 8
	for _, c := range []struct {
		name    string
		flow    Flow
		times   int64   // data rate / link rate
		queue   int64   // bytes
		during  float64 // limit of repairs sent during the data, for each data packet
		all     float64 // limit of all repairs, for each data packet
		perLoss float64 // limit of all repairs, for each lost packet
	}{
		// Repairs have half of the bytes. Index rounds follow the losses, and their packets are small.
		{"FlowNone", FlowNone, 2, 64 << 10, 0.52, 0.63, 1.2},
		{"FlowNone, long queue", FlowNone, 2, 512 << 10, 0.52, 0.63, 1.2},
		{"FlowNone, short queue", FlowNone, 2, 8 << 10, 0.52, 0.63, 1.2},
		{"FlowNone, queue of two packets", FlowNone, 2, 3000, 0.52, 0.63, 1.2},
		{"FlowNone, queue of one packet", FlowNone, 2, 1500, 0.52, 0.63, 1.2},
		{"FlowMin", FlowMin, 2, 64 << 10, 0.61, 0.61, 1.45},
		// More than half is lost at first: only a publisher with a rate limit would send fewer repairs.
		{"FlowMin, 20 times its rate", FlowMin, 20, 64 << 10, 0.8, 0.8, 1.4},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.name, "queue") {
				testenv.Slow(t)
			}
			o := Simple(3, 3, 400_000)
			p := &o.Publishers[0]
			p.Flow, p.Rate, p.Window, p.Gap = c.flow, c.times*link, 2048, 100*time.Microsecond
			for i := range o.Subscribers {
				o.Subscribers[i].Buffer = 4096
			}
			o.Subscribers[2].Link = Link{link, c.queue}
			r := mustRun(t, o)
			sent := float64(r.Sender.PacketsSent)
			during, all := float64(r.Sender.RepairsSent-r.after)/sent, float64(r.Sender.RepairsSent)/sent
			t.Logf("%d packets, %d of them lost, and %d repairs: %.2f for each packet, %.2f during the data, %.2f for each lost packet; took %v", r.Sender.PacketsSent, r.LostPackets, r.Sender.RepairsSent, all, during, r.RepairsPerLoss(), r.Virtual)
			if during > c.during || all > c.all || r.RepairsPerLoss() > c.perLoss {
				t.Errorf("want at most %v during the data, %v for each packet, %v for each lost packet", c.during, c.all, c.perLoss)
			}
			if len(r.trailing) < 3 {
				t.Errorf("%d reports of slow members, want at least 3", len(r.trailing))
			}
			for _, x := range r.trailing {
				if maximum := 1.2 * link / 1472; x.Subscriber != r.trailing[0].Subscriber || x.Received == 0 || x.Received > maximum {
					t.Errorf("report: %v receives %.0f of %.0f packets a second, its link carries %.0f, want the slow one at most at this rate", x.Subscriber, x.Received, x.Sent, maximum)
				}
			}
			if c.flow == FlowMin && r.Receiver.Lost > 0 {
				t.Errorf("%d packets lost permanently, want none", r.Receiver.Lost)
			}
		})
	}
}

// Without flow control, repairs do not exceed their share of the data at any loss rate. Of these packets an eighth are
// small ones of index rounds, which take few bytes of the share. docs/protocol §6.6, §6.11.
func TestRepairsAtHeavyLoss(t *testing.T) {
	for _, gap := range []time.Duration{20 * time.Microsecond, 2 * time.Millisecond} {
		o := Simple(3, 3, 200_000)
		o.Net.Loss = 60 * Percent
		o.Publishers[0].Flow, o.Publishers[0].Gap = FlowNone, gap
		r := mustRun(t, o)
		if during := float64(r.Sender.RepairsSent-r.after) / float64(r.Sender.PacketsSent); during > 0.55 {
			t.Errorf("a message every %v: %.2f repairs for each packet during the data, want at most 0.55", gap, during)
		}
	}
}

// A subscriber that fetches the publisher's window requests many packets, and is not reported as slow.
func TestJoinersKeepUp(t *testing.T) {
	o := Simple(5, 5, 60_000)
	o.Net.Loss = 5 * Percent
	p := &o.Publishers[0]
	p.Rate, p.Window = 1<<20, 4096
	for i := 1; i < len(o.Subscribers); i++ {
		s := &o.Subscribers[i]
		s.FromWindow, s.Window, s.Memory, s.Buffer = true, 8<<20, 8<<20, 4096
		s.Stays[0].After = time.Duration(i) * 170 * time.Millisecond
	}
	r := mustRun(t, o)
	if r.Receiver.History == 0 || r.Virtual < 2*time.Second {
		t.Errorf("%d packets of the window fetched in %v, want some, in at least 2 s", r.Receiver.History, r.Virtual)
	}
	for _, x := range r.trailing {
		t.Errorf("report of a slow member %+v, want none", x)
	}
}
