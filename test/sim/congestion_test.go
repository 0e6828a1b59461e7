package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// A repair is not sent again before the one before can have arrived and be missed: on long ways, on those
// that become long, and where some subscribers are near and others far.
// docs/protocol §6.6, §6.9.
func TestRepairsAreNotSentTwiceInARoundTrip(t *testing.T) {
	const far = 100 * time.Millisecond // one way
	for name, set := range map[string]func(o *Options){
		"a long way":              func(o *Options) { o.Net.Latency = far },
		"with jitter":             func(o *Options) { o.Net.Latency, o.Net.Jitter = far, far/5 },
		"one that becomes long":   func(o *Options) { o.Net.Detour = Detour{At: 100 * time.Millisecond, More: far} },
		"near and far":            func(o *Options) { o.Subscribers[0].Away, o.Subscribers[1].Away = far, far/2 },
		"one of them is far":      func(o *Options) { o.Subscribers[7].Away = far },
		"shared by all of them":   func(o *Options) { o.Net.Latency, o.Net.Loss, o.Net.SharedLoss = far, 0, Percent },
		"with runs of losses":     func(o *Options) { o.Net.Latency, o.Net.Run = far, 8 },
		"where statuses are rare": func(o *Options) { o.Net.Latency, o.Net.UnicastLoss = far, 20*Percent },
	} {
		t.Run(name, func(t *testing.T) {
			o := Simple(3, 8, 50_000)
			o.Net.Loss, o.Net.UnicastLoss = Percent, Percent
			o.Publishers[0].Gap = 2 * time.Millisecond // 20 messages, a packet
			set(&o)
			r := mustRun(t, o)
			t.Logf("%.2f NAKs and %.2f repairs a lost packet of %d; repaired in p50 %v p99 %v",
				r.NAKsPerLoss(), r.RepairsPerLoss(), r.LostPackets, r.RepairTime(50), r.RepairTime(99))
			if r.RepairsPerLoss() > 1.2 {
				t.Errorf("want at most 1.2 repairs a lost packet")
			}
		})
	}
}

// A link that cannot carry what is published is not filled up with repairs, and a publisher that waits for
// a subscriber behind it comes as far as the link allows.
// docs/protocol §6.6, §6.11.
func TestRepairsLeaveASlowLinkToData(t *testing.T) {
	t.Parallel()
	const link = 10e6 / 8
	for _, c := range []struct {
		name    string
		flow    Flow
		times   int64   // the link's rate
		queue   int64   // bytes
		beside  float64 // repairs while new packets are sent, of these, at most
		all     float64 // repairs of the whole run, with those after the last new packet
		perLoss float64 // repairs of the packets lost
	}{
		{"FlowNone", FlowNone, 2, 64 << 10, 0.51, 0.6, 1.2},
		{"FlowNone, a long queue", FlowNone, 2, 512 << 10, 0.51, 0.6, 1.2},
		{"FlowNone, a short queue", FlowNone, 2, 8 << 10, 0.51, 0.6, 1.2},
		{"FlowNone, a queue of two packets", FlowNone, 2, 3000, 0.51, 0.6, 1.2},
		{"FlowNone, a queue of one packet", FlowNone, 2, 1500, 0.51, 0.62, 1.2},
		{"FlowMin", FlowMin, 2, 64 << 10, 0.6, 0.6, 1.45},
		// More than half is lost at first: only a publisher that paces what it sends repairs less.
		{"FlowMin, far beyond its rate", FlowMin, 20, 64 << 10, 0.8, 0.8, 1.4},
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
			beside, all := float64(r.Sender.RepairsSent-r.after)/sent, float64(r.Sender.RepairsSent)/sent
			t.Logf("%d packets, %d of them lost, and %d repairs: %.2f of all, %.2f beside new packets, %.2f a lost packet; it took %v", r.Sender.PacketsSent, r.LostPackets, r.Sender.RepairsSent, all, beside, r.RepairsPerLoss(), r.Virtual)
			if beside > c.beside || all > c.all || r.RepairsPerLoss() > c.perLoss {
				t.Errorf("want at most %v beside new packets, %v of all, %v a lost packet", c.beside, c.all, c.perLoss)
			}
			if len(r.trailing) < 3 {
				t.Errorf("%d times the publisher said who does not keep up", len(r.trailing))
			}
			for _, x := range r.trailing {
				if most := 1.2 * link / 1472; x.Receiver != r.trailing[0].Receiver || x.Received == 0 || x.Received > most {
					t.Errorf("%#x is said to receive %.0f of %.0f packets a second, of a link that carries %.0f", x.Receiver, x.Received, x.Sent, most)
				}
			}
			if c.flow == FlowMin && r.Receiver.Lost > 0 {
				t.Errorf("%d packets lost permanently", r.Receiver.Lost)
			}
		})
	}
}

// Where none is waited for, repairs keep to their share of the data at any loss.
// docs/protocol §6.6, §6.11.
func TestRepairsAtHeavyLoss(t *testing.T) {
	for _, gap := range []time.Duration{20 * time.Microsecond, 2 * time.Millisecond} {
		o := Simple(3, 3, 200_000)
		o.Net.Loss = 60 * Percent
		o.Publishers[0].Flow, o.Publishers[0].Gap = FlowNone, gap
		r := mustRun(t, o)
		if beside := float64(r.Sender.RepairsSent-r.after) / float64(r.Sender.PacketsSent); beside > 0.51 {
			t.Errorf("a message each %v: %.2f repairs a packet beside new ones, want at most 0.51", gap, beside)
		}
	}
}

// A subscriber that fetches what was sent before it came asks for much, and keeps up all the same.
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
		t.Errorf("%d packets of history were fetched in %v", r.Receiver.History, r.Virtual)
	}
	for _, x := range r.trailing {
		t.Errorf("%+v is said not to keep up", x)
	}
}
