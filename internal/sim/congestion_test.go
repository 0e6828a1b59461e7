package sim

import (
	"testing"
	"time"
)

// A repair is not sent again before the one before can have arrived and be missed: on long ways, on those
// that become long, and where some subscribers are near and others far.
// docs/protocol.md §6.6, §6.9.
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
