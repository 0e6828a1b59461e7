package bench

import (
	"testing"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Figures of one run with two subscribers, computed by hand, and of two runs together.
func TestMetrics(t *testing.T) {
	usage := func(user, system float64) worker.Usage {
		return worker.Usage{User: user, System: system, Allocs: 1500, GCCycles: 2, GCPauseMax: user / 1e3, Sleeps: 2000, PeakRSS: 1 << 20, Heap: 1 << 19}
	}
	o := &outcome{
		spec: worker.Spec{Traffic: worker.Traffic{Size: 100}},
		pub: &worker.Report{Messages: 1e6, Start: 0, End: 1e9, Usage: usage(0.25, 0.5),
			Figures: map[string]float64{"packets": 5e4, "send_calls": 1e3}},
		subs: []*worker.Report{
			{Messages: 1e6, Timed: 1e6, End: 1e9, Usage: usage(0.125, 0.25)},
			{Messages: 8e5, Timed: 8e5, End: 2e9, Lost: 2e5, Gaps: 3, Usage: usage(0.5, 0.125)},
		},
	}
	want := map[string]float64{
		"runs": 1, "msgs_per_s": 4e5, "bytes_per_s": 4e7, "published_per_s": 1e6, "cpu_s_per_mmsg": 1.75 / 0.8,
		"publisher_user_s_per_mmsg": 0.25, "publisher_system_s_per_mmsg": 0.5, "subscriber_user_s_per_mmsg": 0.625, "subscriber_system_s_per_mmsg": 0.375,
		"msgs_per_packet": 20, "msgs_per_train": 1000, "allocs_per_msg": 0.005, "sleeps_per_msg": 0.006, "gc_cycles": 6, "gc_pause_max_us": 500,
		"publisher_rss_bytes": 1 << 20, "publisher_heap_bytes": 1 << 19, "subscriber_rss_bytes": 1 << 20, "lost": 2e5, "lost_share": 0.1, "gaps": 3,
	}
	for _, r := range rows("ours", fullMetrics, []*outcome{o}) {
		if x, ok := want[r.Metric]; !ok || r.Value < x*0.999999 || r.Value > x*1.000001 {
			t.Errorf("%s is %v, want %v", r.Metric, r.Value, x)
		}
		delete(want, r.Metric)
	}
	if len(want) > 0 {
		t.Errorf("not measured: %v", want)
	}
	// Another run without losses, and without a count of packets.
	pub := *o.pub
	pub.Figures = nil
	p := Point{Rows: rows("ours", fullMetrics, []*outcome{o, {spec: o.spec, pub: &pub, subs: o.subs[:1]}})}
	for metric, x := range map[string]float64{"runs": 2, "lost": 2e5, "lost_share": 0.05, "msgs_per_s": 4e5, "msgs_per_packet": 20, "gc_cycles": 10} {
		if got := p.Value("ours", metric); got != x {
			t.Errorf("of two runs %s is %v, want %v", metric, got, x)
		}
	}
	if r := p.Row("ours", "msgs_per_s"); r.Min != 4e5 || r.Max != 1e6 || len(p.Row("ours", "msgs_per_packet").Runs) != 1 {
		t.Errorf("row %+v, want msgs_per_s from 4e5 to 1e6 and one run of msgs_per_packet", r)
	}
}
