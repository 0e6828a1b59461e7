package bench

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// contestant takes turns with the others: Fanfare or a baseline, with the settings or a variation of them.
type contestant struct {
	key       string // in results
	contender string
	when      func(*Settings) bool // the settings for which it takes part; nil: all
	tweak     func(*Settings, *worker.Spec)
	// The ratio of the contestant is the rate of contestant of, divided by that of contestant by, and note
	// describes it; empty: our rate divided by this one.
	of, by, note string
}

// Keys of contestants that code refers to; variants and baselineVariants define them.
const (
	keyOurs           = "ours"
	keyOne            = "one"
	keyLossless       = "lossless"
	keySealed         = "sealed"
	keySealedLossless = "sealed-lossless"
	keyBatches        = "batches"
	keyAlone          = "alone"
	keyOneLeg         = "one-leg"
	keyRawOne         = "raw-one"
	keyUDPFrames      = "udp-frames"
)

// fewExtra is the number of extra subscriptions of contestants that are compared with many.
const fewExtra = 10

// variants are Fanfare over the selected transport, in the order of results.
var variants = []contestant{
	{key: keyOurs},
	{key: keyOne, when: func(s *Settings) bool { return s.Many() }, tweak: func(_ *Settings, w *worker.Spec) {
		w.Topics, w.Goroutines, w.Buses, w.Split, w.Extra = 1, 1, 1, false, min(w.Extra, fewExtra)
	}},
	ofOurs(keyBatches, func(s *Settings) bool { return s.Batch > 0 },
		func(s *Settings, w *worker.Spec) { w.Batch = s.Batch }),
	{key: keyLossless, when: func(s *Settings) bool { return s.Loss > 0 },
		tweak: func(_ *Settings, w *worker.Spec) { w.Loss = 0 }},
	ofOurs("wildcard", func(s *Settings) bool { return s.Wildcard }, func(_ *Settings, w *worker.Spec) { w.Wildcard = true }),
	ofOurs(keySealed, func(s *Settings) bool { return s.Sealed }, func(_ *Settings, w *worker.Spec) { w.Sealed = true }),
	{key: keySealedLossless, of: keySealed, by: keySealedLossless, note: "sealed", when: func(s *Settings) bool { return s.Sealed && s.Loss > 0 },
		tweak: func(_ *Settings, w *worker.Spec) { w.Sealed, w.Loss = true, 0 }},
	ofOurs("signed", func(s *Settings) bool { return s.Signed }, func(_ *Settings, w *worker.Spec) { w.Signed = true }),
	ofOurs("metrics", func(s *Settings) bool { return s.Metrics != "" }, func(s *Settings, w *worker.Spec) { w.Metrics = s.Metrics }),
	ofOurs("top", func(s *Settings) bool { return s.Top }, func(s *Settings, w *worker.Spec) { w.Metrics, w.Inspected = s.Metrics, true }),
	{key: keyAlone, when: func(s *Settings) bool { return s.Alone },
		tweak: func(_ *Settings, w *worker.Spec) { w.Subs = 1 }},
	{key: keyOneLeg, when: func(s *Settings) bool { return len(s.Legs) > 0 },
		tweak: func(_ *Settings, w *worker.Spec) { w.Legs = nil }},
}

// ofOurs is a variant with the ratio of its rate to ours.
func ofOurs(key string, when func(*Settings) bool, tweak func(*Settings, *worker.Spec)) contestant {
	return contestant{key: key, when: when, tweak: tweak, of: key, by: keyOurs, note: "of ours"}
}

// baselineVariants are variants of baselines, by name, and follow them in results. Raw on one topic
// shows the share that the machine keeps with many topics without any protocol; Fanfare over UDP is
// also measured with packets of Ethernet's size, in addition to those of shared memory's size.
var baselineVariants = map[string]contestant{
	contenders.Raw: {key: keyRawOne, of: contenders.Raw, by: keyRawOne, note: "raw", when: func(s *Settings) bool { return s.Topics > 1 },
		tweak: func(_ *Settings, w *worker.Spec) { w.Topics = 1 }},
	contenders.UDP: {key: keyUDPFrames, when: func(s *Settings) bool { return s.MTU != s.socketMTU() },
		tweak: func(s *Settings, w *worker.Spec) { s.overUDP(w, s.socketMTU()) }},
}

// ratioOf returns the rates divided by the ratio of a contestant, and its description.
func ratioOf(key string) contestant {
	for _, c := range append(slices.Clone(variants), baselineVariants[contenders.Raw]) {
		if c.key == key && c.of != "" {
			return c
		}
	}
	return contestant{of: keyOurs, by: key}
}

// rank is the position of a contestant in results: variants, then baselines, then peers.
func rank(key string) int {
	if i := slices.IndexFunc(variants, func(c contestant) bool { return c.key == key }); i >= 0 {
		return i
	}
	i := slices.IndexFunc(contenders.Baselines,
		func(b contenders.Baseline) bool { return b.Name == key || baselineVariants[b.Name].key == key })
	if i < 0 {
		i = len(contenders.Baselines)
	}
	return len(variants) + i
}

// IsOurs reports whether a contestant is Fanfare over the selected transport.
func IsOurs(key string) bool { return rank(key) < len(variants) }

// isFanfare reports whether a contestant repairs losses.
func isFanfare(key string) bool {
	return IsOurs(key) || key == contenders.UDP || key == keyUDPFrames
}

// contestants are Fanfare, its variants and the baselines.
func (b *Bench) contestants() (all []contestant) {
	add := func(c contestant, contender string) {
		if c.contender = contender; c.when == nil || c.when(&b.Settings) {
			all = append(all, c)
		}
	}
	for _, c := range variants {
		add(c, contenders.Fanfare)
	}
	for _, name := range b.Baselines {
		c := contestant{key: name, contender: name}
		if name == contenders.UDP {
			c.tweak = func(s *Settings, w *worker.Spec) { s.overUDP(w, s.MTU) }
		}
		all = append(all, c)
		if other, ok := baselineVariants[name]; ok {
			add(other, name)
		}
	}
	return all
}

// contest measures all contestants in turn, and adds the result, even an incomplete one, to r.
func (b *Bench) contest(ctx context.Context, r *Result, what string, k kind) error {
	all := slices.DeleteFunc(b.contestants(), func(c contestant) bool {
		switch k.load {
		case worker.LoadIdle:
			return c.key != keyOurs
		case worker.LoadRequest:
			return IsOurs(c.key) && c.key != keyOurs && c.key != keyLossless
		case worker.LoadPaced: // one message in each packet, whatever its size
			return c.key == keyUDPFrames
		}
		return false
	})
	runs, err := b.rounds(ctx, what, k.load, all)
	if len(runs) == 0 {
		return err
	}
	p := Point{Settings: b.Settings}
	switch k.load {
	case worker.LoadIdle:
		p.Rows = rows("", k.metrics, runs[keyOurs])
	case worker.LoadFull:
		p = b.point(k.metrics, runs)
		p.rateRatios(b.Baselines)
	default:
		p = b.point(k.metrics, runs)
		p.lateRatios()
	}
	r.Points = append(r.Points, p)
	return err
}

// point summarizes runs by contestant.
func (b *Bench) point(all []metric, runs map[string][]*outcome) Point {
	p := Point{Settings: b.Settings, Details: make(map[string]Detail)}
	for _, key := range slices.SortedFunc(maps.Keys(runs),
		func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) }) {
		p.Rows = append(p.Rows, rows(key, all, runs[key])...)
		var d Detail
		var late []*hdrhistogram.Histogram
		for _, o := range runs[key] {
			d.Publisher = o.pub.Figures
			if len(o.subs) > 0 {
				d.Subscriber = o.subs[0].Figures
			}
			if o.late != nil {
				late = append(late, o.late)
			}
		}
		if late != nil {
			d.Curve = curveOf(late)
		}
		p.Details[key] = d
	}
	return p
}

func (p *Point) addRatio(name string, a, b Row) {
	p.Rows = append(p.Rows, newRow("", "ratio_"+name, asRatio, ratios(a.Runs, b.Runs)))
}

// rateRatios divides rates: ours by those of baselines, and those of batches by the baselines.
func (p *Point) rateRatios(baselines []string) {
	rate := func(key string) Row { return p.Row(key, "msgs_per_s") }
	for _, key := range p.Keys() {
		if x := ratioOf(key); key != keyOurs {
			p.addRatio(key, rate(x.of), rate(x.by))
		}
		if slices.Contains(baselines, key) && rate(keyBatches).Has() {
			p.addRatio(keyBatches+"_"+key, rate(keyBatches), rate(key))
		}
	}
}

func (p *Point) lateRatios() {
	for _, key := range p.Keys() {
		for _, q := range quantiles {
			if key != keyOurs {
				p.addRatio(q.key+"_"+key, p.Row(keyOurs, q.key+"_us"), p.Row(key, q.key+"_us"))
			}
		}
	}
}
