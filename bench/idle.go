package bench

import (
	"context"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Idle is the result of the scenario of that name: what a bus costs that has
// nothing to do, with a publisher and subscribers that know of each other.
type Idle struct {
	Head
	Runs int `json:"runs"`
	// Percent of one core, of one process.
	PublisherCPU  Spread `json:"publisher_cpu_percent"`
	SubscriberCPU Spread `json:"subscriber_cpu_percent"`
	// Times a second that one of a process's threads went to sleep.
	PublisherSleeps  Spread `json:"publisher_sleeps_per_s"`
	SubscriberSleeps Spread `json:"subscriber_sleeps_per_s"`
	PublisherRSS     uint64 `json:"publisher_rss_bytes"` // at the end, the most of the runs
	SubscriberRSS    uint64 `json:"subscriber_rss_bytes"`
}

// Idle measures a bus without traffic.
func (b *Bench) Idle(ctx context.Context) (*Idle, error) {
	all := []contestant{b.contestants()[0]}
	head := b.head("idle")
	runs, err := b.rounds(ctx, "idle", worker.LoadIdle, all)
	d := &Idle{Head: head, Runs: len(runs[keyOurs])}
	var pc, sc, ps, ss []float64
	for _, o := range runs[keyOurs] {
		took := float64(o.pub.End-o.pub.Start) / 1e9
		u := o.pub.Usage
		pc, ps = append(pc, 100*(u.User+u.System)/took), append(ps, float64(u.Sleeps)/took)
		d.PublisherRSS = max(d.PublisherRSS, u.RSS)
		for _, s := range o.subs {
			u := s.Usage
			if took := float64(s.End-s.Start) / 1e9; took > 0 {
				sc, ss = append(sc, 100*(u.User+u.System)/took), append(ss, float64(u.Sleeps)/took)
			}
			d.SubscriberRSS = max(d.SubscriberRSS, u.RSS)
		}
	}
	d.PublisherCPU, d.PublisherSleeps = spreadOf(pc), spreadOf(ps)
	d.SubscriberCPU, d.SubscriberSleeps = spreadOf(sc), spreadOf(ss)
	return d, err
}

func (d *Idle) empty() bool { return d.Runs == 0 }

// MarshalJSON writes head and figures in one object.
func (d *Idle) MarshalJSON() ([]byte, error) {
	m := d.Head.fields()
	m["runs"] = d.Runs
	m["publisher_cpu_percent"], m["subscriber_cpu_percent"] = d.PublisherCPU, d.SubscriberCPU
	m["publisher_sleeps_per_s"], m["subscriber_sleeps_per_s"] = d.PublisherSleeps, d.SubscriberSleeps
	m["publisher_rss_bytes"], m["subscriber_rss_bytes"] = d.PublisherRSS, d.SubscriberRSS
	return marshal(m)
}
