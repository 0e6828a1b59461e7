package bench

import (
	"context"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Percentiles are how late messages were, in microseconds from when they were
// due: the medians of the runs' percentiles, and the largest maximum.
type Percentiles struct {
	Runs int     `json:"runs"`
	P50  float64 `json:"p50_us"`
	P90  float64 `json:"p90_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p999_us"`
	Max  float64 `json:"max_us"`
	// Spreads over the runs.
	Spread map[string]Spread `json:"spread"`
	// Curve is of all runs together.
	Curve    []Point `json:"curve"`
	Messages int64   `json:"messages"` // measured
	// MsgsPerS is the rate at which they came.
	MsgsPerS Spread `json:"msgs_per_s"`
	// CPUPercent is of one core, of all processes together.
	CPUPercent Spread             `json:"cpu_percent"`
	Lost       uint64             `json:"lost"`
	LostShare  float64            `json:"lost_share"` // of what was published to all subscribers
	Gaps       uint64             `json:"gaps"`
	Publisher  map[string]float64 `json:"publisher,omitempty"`
	Subscriber map[string]float64 `json:"subscriber,omitempty"`

	by map[string][]float64 // quantile's name → of single runs
}

// Point is one of a percentile curve.
type Point struct {
	Percentile float64 `json:"percentile"`
	Us         float64 `json:"us"`
}

var quantiles = []struct {
	name string
	at   float64
}{{"p50_us", 50}, {"p90_us", 90}, {"p99_us", 99}, {"p999_us", 99.9}}

// histogram picks which histogram of a subscriber's report to look at.
type histogram func(*worker.Report) string

func percentilesOf(runs []*outcome, pick histogram) (*Percentiles, error) {
	p := &Percentiles{Runs: len(runs), by: make(map[string][]float64), Spread: make(map[string]Spread)}
	all := worker.NewHistogram()
	var rates, cpu []float64
	due := 0.0 // messages, to all subscribers
	for _, o := range runs {
		one := worker.NewHistogram()
		used := o.pub.Usage.User + o.pub.Usage.System
		for i := range o.subs {
			s := &o.subs[i]
			h, err := worker.DecodeHistogram(pick(s))
			if err != nil {
				return nil, err
			}
			one.Merge(h)
			used += s.Usage.User + s.Usage.System
			p.Lost += o.due(i) - s.Messages
			p.Gaps += s.Gaps
			due += float64(o.due(i))
			p.Subscriber = s.Figures
		}
		p.Publisher = o.pub.Figures
		all.Merge(one)
		for _, q := range quantiles {
			p.by[q.name] = append(p.by[q.name], micros(one.ValueAtQuantile(q.at)))
		}
		p.by["max_us"] = append(p.by["max_us"], micros(one.Max()))
		rates = append(rates, o.msgsPerS())
		if took := float64(o.pub.End-o.pub.Start) / 1e9; took > 0 {
			cpu = append(cpu, 100*used/took)
		}
	}
	p.LostShare = float64(p.Lost) / max(due, 1)
	for name, values := range p.by {
		p.Spread[name] = spreadOf(values)
	}
	p.P50, p.P90 = p.Spread["p50_us"].Median, p.Spread["p90_us"].Median
	p.P99, p.P999 = p.Spread["p99_us"].Median, p.Spread["p999_us"].Median
	p.Max = p.Spread["max_us"].Max
	p.Curve, p.Messages = curveOf(all), all.TotalCount()
	p.MsgsPerS, p.CPUPercent = spreadOf(rates), spreadOf(cpu)
	return p, nil
}

func micros(ns int64) float64 { return math.Round(float64(ns)/10) / 100 }

// curveOf samples a histogram ever closer to 100 %, as far as there are
// messages to tell.
func curveOf(h *hdrhistogram.Histogram) []Point {
	var curve []Point
	for nines := 0.0; nines <= 6; nines += 0.1 {
		share := math.Pow(10, -nines)
		if share*float64(h.TotalCount()) < 1 {
			break
		}
		q := 100 * (1 - share)
		curve = append(curve, Point{q, micros(h.ValueAtQuantile(q))})
	}
	return append(curve, Point{100, micros(h.Max())})
}

// Latency is the result of the scenarios latency and burst.
type Latency struct {
	Head
	By map[string]*Percentiles
	// Bursts is how long it took from when a burst was due to its last message;
	// nil of the scenario latency.
	Bursts map[string]*Percentiles
	// Ratios are by quantile and key: "p50_raw" is ours by raw, below 1 where
	// ours is faster.
	Ratios map[string]Spread
}

// Latency measures how late messages are at a steady rate, open loop.
func (b *Bench) Latency(ctx context.Context) (*Latency, error) {
	return b.latency(ctx, "latency", worker.LoadPaced)
}

// Bursts measures how late messages are that come in bursts.
func (b *Bench) Bursts(ctx context.Context) (*Latency, error) {
	return b.latency(ctx, "burst", worker.LoadBurst)
}

func (b *Bench) latency(ctx context.Context, scenario string, load worker.Load) (*Latency, error) {
	head := b.head(scenario)
	runs, failed := b.rounds(ctx, scenario, load, b.contestants())
	l := &Latency{Head: head, By: make(map[string]*Percentiles), Ratios: make(map[string]Spread)}
	if load == worker.LoadBurst {
		l.Bursts = make(map[string]*Percentiles)
	}
	for key, outcomes := range runs {
		var err error
		if l.By[key], err = percentilesOf(outcomes, func(r *worker.Report) string { return r.Latency }); err != nil {
			return &Latency{Head: head}, err
		}
		if load == worker.LoadBurst {
			if l.Bursts[key], err = percentilesOf(outcomes, func(r *worker.Report) string { return r.Burst }); err != nil {
				return &Latency{Head: head}, err
			}
		}
	}
	for key, p := range l.By {
		if key == keyOurs {
			continue
		}
		for _, q := range quantiles {
			l.Ratios[q.name[:len(q.name)-len("_us")]+"_"+key] = ratios(l.By[keyOurs].by[q.name], p.by[q.name])
		}
	}
	return l, failed
}

func (l *Latency) empty() bool { return len(l.By) == 0 }

// MarshalJSON writes the contestants and, as ratio_QUANTILE_NAME, their ratios
// side by side in one object.
func (l *Latency) MarshalJSON() ([]byte, error) {
	m := l.Head.fields()
	for key, p := range l.By {
		m[key] = p
	}
	if l.Bursts != nil {
		m["bursts"] = l.Bursts
	}
	if doubt := l.Doubt(); doubt != "" {
		m["doubt"] = doubt
	}
	for key, r := range l.Ratios {
		m["ratio_"+key] = r.Median
		m["ratio_"+key+"_spread"] = r
	}
	return marshal(m)
}
