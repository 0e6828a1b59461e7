package bench

import (
	"context"
	"fmt"
	"math"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Rates is how fast a contestant was, over its runs.
type Rates struct {
	Runs int `json:"runs"`
	// MsgsPerS is the rate of the slowest subscriber, from the publisher's
	// first call to the last message, and BytesPerS its payload.
	MsgsPerS  Spread `json:"msgs_per_s"`
	BytesPerS Spread `json:"bytes_per_s"`
	// PublishedPerS is the publisher's own rate: more than MsgsPerS where messages
	// are lost.
	PublishedPerS Spread `json:"published_per_s"`
	// CPUPerMmsg is CPU time of all processes, in seconds for a million
	// messages delivered to each subscriber.
	CPUPerMmsg Spread `json:"cpu_s_per_mmsg"`
	// The same of single sides, per million messages published, user code and
	// kernel apart. Subscribers are all together. Where all sides are one
	// process it is the publisher's.
	PublisherUser    Spread `json:"publisher_user_s_per_mmsg"`
	PublisherSystem  Spread `json:"publisher_system_s_per_mmsg"`
	SubscriberUser   Spread `json:"subscriber_user_s_per_mmsg"`
	SubscriberSystem Spread `json:"subscriber_system_s_per_mmsg"`

	// Messages in a packet, and in what one system call sends, on average: all zero of
	// contestants that do not count them.
	MsgsPerPacket Spread `json:"msgs_per_packet"`
	MsgsPerTrain  Spread `json:"msgs_per_train"`

	Lost         uint64  `json:"lost"`           // messages, of all subscribers and runs
	LostShare    float64 `json:"lost_share"`     // of what was published to all of them
	Gaps         uint64  `json:"gaps"`           // places where they are missing
	AllocsPerMsg float64 `json:"allocs_per_msg"` // of all processes, the most of a run, to three decimals
	GCCycles     uint64  `json:"gc_cycles"`
	GCPauseMaxUs float64 `json:"gc_pause_max_us"`
	PublisherRSS uint64  `json:"publisher_rss_bytes"` // the peak
	// PublisherHeap is what Go's heap held at the end, the most of the runs.
	PublisherHeap uint64 `json:"publisher_heap_bytes"`
	// SubscriberRSS is the peak of the largest one.
	SubscriberRSS uint64 `json:"subscriber_rss_bytes"`
	// Own are the contender's own counts of the last run, of the publisher and
	// the first subscriber.
	Publisher  map[string]float64 `json:"publisher,omitempty"`
	Subscriber map[string]float64 `json:"subscriber,omitempty"`

	rates []float64 // of single runs
	cpu   []float64
}

// msgsPerS is the rate of the slowest subscriber. One that takes a share of the topics
// counts for all messages: its rate by its share of them.
func (o *outcome) msgsPerS() float64 {
	rate := math.Inf(1)
	for i, s := range o.subs {
		if took := float64(s.End-o.pub.Start) / 1e9; took > 0 {
			rate = min(rate, float64(s.Timed)/took/o.share(i))
		} else {
			rate = 0
		}
	}
	if math.IsInf(rate, 1) {
		return 0
	}
	return rate
}

// delivered is how many messages the subscriber got that got least, by its share of them.
func (o *outcome) delivered() float64 {
	n := float64(o.pub.Messages)
	for i, s := range o.subs {
		n = min(n, float64(s.Messages)/o.share(i))
	}
	return n
}

func ratesOf(runs []*outcome) *Rates {
	r := &Rates{Runs: len(runs)}
	var bytes, published, pu, ps, su, ss, packets, trains []float64
	due := 0.0 // messages, to all subscribers
	for _, o := range runs {
		rate := o.msgsPerS()
		r.rates = append(r.rates, rate)
		bytes = append(bytes, rate*float64(o.spec.Size))
		cpu := o.pub.Usage.User + o.pub.Usage.System
		allocs, subUser, subSystem := o.pub.Usage.Allocs, 0.0, 0.0
		r.GCPauseMaxUs = max(r.GCPauseMaxUs, o.pub.Usage.GCPauseMax*1e6)
		r.GCCycles += o.pub.Usage.GCCycles
		r.PublisherRSS = max(r.PublisherRSS, o.pub.Usage.PeakRSS)
		r.PublisherHeap = max(r.PublisherHeap, o.pub.Usage.Heap)
		for i, s := range o.subs {
			cpu += s.Usage.User + s.Usage.System
			subUser += s.Usage.User
			subSystem += s.Usage.System
			allocs += s.Usage.Allocs
			r.GCPauseMaxUs = max(r.GCPauseMaxUs, s.Usage.GCPauseMax*1e6)
			r.GCCycles += s.Usage.GCCycles
			r.SubscriberRSS = max(r.SubscriberRSS, s.Usage.PeakRSS)
			r.Lost += o.due(i) - s.Messages
			r.Gaps += s.Gaps
			due += float64(o.due(i))
		}
		if took := float64(o.pub.End-o.pub.Start) / 1e9; took > 0 {
			published = append(published, float64(o.pub.Messages)/took)
		}
		sent := max(float64(o.pub.Messages), 1)
		r.cpu = append(r.cpu, cpu/max(o.delivered(), 1)*1e6)
		packets = appendRatio(packets, float64(o.pub.Messages), o.pub.Figures["packets"])
		trains = appendRatio(trains, float64(o.pub.Messages), o.pub.Figures["send_calls"])
		pu = append(pu, o.pub.Usage.User/sent*1e6)
		ps = append(ps, o.pub.Usage.System/sent*1e6)
		su = append(su, subUser/sent*1e6)
		ss = append(ss, subSystem/sent*1e6)
		r.AllocsPerMsg = max(r.AllocsPerMsg, math.Round(float64(allocs)/sent*1e3)/1e3)
		r.Publisher = o.pub.Figures
		if len(o.subs) > 0 {
			r.Subscriber = o.subs[0].Figures
		}
	}
	r.MsgsPerS, r.BytesPerS, r.CPUPerMmsg = spreadOf(r.rates), spreadOf(bytes), spreadOf(r.cpu)
	r.PublishedPerS, r.LostShare = spreadOf(published), float64(r.Lost)/max(due, 1)
	r.MsgsPerPacket, r.MsgsPerTrain = spreadOf(packets), spreadOf(trains)
	r.PublisherUser, r.PublisherSystem = spreadOf(pu), spreadOf(ps)
	r.SubscriberUser, r.SubscriberSystem = spreadOf(su), spreadOf(ss)
	return r
}

// appendRatio appends a by b, if b is known.
func appendRatio(list []float64, a, b float64) []float64 {
	if b > 0 {
		list = append(list, a/b)
	}
	return list
}

// Throughput is the result of the scenario of that name.
type Throughput struct {
	Head
	// Rates are by key: "ours", "shared", "raw", "naive", …
	Rates map[string]*Rates
	// Ratios are of messages per second: "raw" is ours by raw, "shared_raw"
	// the concurrent publisher by raw, "metrics" that with metrics by ours,
	// "lossless" ours by ours without loss, "one" ours by one publisher on one topic.
	Ratios map[string]Spread
}

// Throughput measures how many messages a second come through.
func (b *Bench) Throughput(ctx context.Context) (*Throughput, error) {
	return b.throughput(ctx, "throughput", b.contestants())
}

func (b *Bench) throughput(ctx context.Context, what string, all []contestant) (*Throughput, error) {
	head := b.head("throughput")
	runs, err := b.rounds(ctx, what, worker.LoadFull, all)
	t := &Throughput{Head: head, Rates: make(map[string]*Rates), Ratios: make(map[string]Spread)}
	for key, outcomes := range runs {
		t.Rates[key] = ratesOf(outcomes)
	}
	ours := t.Rates[keyOurs]
	for key, r := range t.Rates {
		switch key {
		case keyOurs:
		case "metrics":
			t.Ratios[key] = ratios(r.rates, ours.rates)
		default:
			t.Ratios[key] = ratios(ours.rates, r.rates)
		}
	}
	for _, p := range b.Publishers[1:] {
		for _, name := range b.Baselines {
			if r := t.Rates[string(p)]; r != nil && t.Rates[name] != nil {
				t.Ratios[string(p)+"_"+name] = ratios(r.rates, t.Rates[name].rates)
			}
		}
	}
	return t, err
}

func (t *Throughput) empty() bool { return len(t.Rates) == 0 }

// MarshalJSON writes the contestants and, as ratio_NAME, their ratios side by
// side in one object: the median, and as ratio_NAME_spread all of it.
func (t *Throughput) MarshalJSON() ([]byte, error) {
	m := t.contest()
	for key, val := range t.Head.fields() {
		m[key] = val
	}
	return marshal(m)
}

// Verdict is whether ours reaches Settings.Target of a baseline.
type Verdict struct {
	Baseline string
	Ratio    Spread  // over neighbouring runs
	Target   float64 // for the median
}

// Met says that it does.
func (v Verdict) Met() bool { return v.Ratio.Median >= v.Target }

func (v Verdict) String() string {
	word := "MISSED"
	if v.Met() {
		word = "PASS"
	}
	return fmt.Sprintf("%s: %.2f of %s (%.2f-%.2f), the target is %.2f", word, v.Ratio.Median, v.Baseline, v.Ratio.Min, v.Ratio.Max, v.Target)
}

// Verdicts are those on all baselines, or on one of each where there are many and no
// baseline; none without a target, or when not all runs were made.
func (t *Throughput) Verdicts() (list []Verdict) {
	if t.Settings.Target == 0 || t.Incomplete != "" {
		return nil
	}
	names := t.Settings.Baselines
	if len(names) == 0 && t.Settings.Many() {
		names = []string{keyOne}
	}
	for _, name := range names {
		list = append(list, Verdict{name, t.Ratios[name], t.Settings.Target})
	}
	return list
}

// contest is the result without its head.
func (t *Throughput) contest() map[string]any {
	m := make(map[string]any)
	for key, r := range t.Rates {
		m[key] = r
	}
	for key, r := range t.Ratios {
		m["ratio_"+key] = r.Median
		m["ratio_"+key+"_spread"] = r
	}
	if ours := t.Rates[keyOurs]; ours != nil {
		m["lost"], m["gaps"], m["allocs_per_msg"] = ours.Lost, ours.Gaps, ours.AllocsPerMsg
	}
	if doubt := t.Doubt(); doubt != "" {
		m["doubt"] = doubt
	}
	for _, v := range t.Verdicts() {
		m["target_"+v.Baseline+"_met"] = v.Met()
	}
	return m
}
