package bench

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// contestant is one of those that take turns.
type contestant struct {
	key       string // in results
	contender string
	tweak     func(*worker.Spec) // nil: none
}

const (
	// keyOurs is the key of Fanfare, as set, and keyOne that of one publisher that one
	// goroutine uses, on one topic that all subscribers take.
	keyOurs = "ours"
	keyOne  = "one"
	// keyWildcard is Fanfare with subscriptions by a pattern.
	keyWildcard = "wildcard"
	// keySealed is Fanfare with keys, and keySigned with a publisher that signs.
	keySealed = "sealed"
	// keySealedLossless is that without loss.
	keySealedLossless = "sealed-lossless"
	keySigned         = "signed"
	// keyBatches is Fanfare with a publisher that publishes several messages a call.
	keyBatches = "batches"
	// keyMetrics is Fanfare with metrics that are read, and keyTop Fanfare whose processes are
	// looked at as fanfare top does, beside metrics where they are served.
	keyMetrics = "metrics"
	keyTop     = "top"
	// keyAlone is Fanfare with one subscriber, and keyOneLeg with the first of its legs.
	keyAlone  = "alone"
	keyOneLeg = "one-leg"
	// keyRawOne is the baseline raw on one topic, beside raw on as many as were asked for: what the machine keeps of its
	// rate there without any protocol.
	keyRawOne = "raw-one"
	// keyUDPFrames is the baseline udp with Ethernet's packets, as it is by default, beside that in packets of the size that shared
	// memory has.
	keyUDPFrames = "udp-frames"
	// fewExtra is how many extra subscriptions are left beside many.
	fewExtra = 10
)

// variants are Fanfare over the transport that was set, in the order that results have:
// when each takes part, and what it does otherwise.
var variants = append([]variant{
	{keyOurs, func(*Settings) bool { return true }, func(*Settings, *worker.Spec) {}},
	{keyOne, func(s *Settings) bool { return s.Many() }, func(_ *Settings, w *worker.Spec) {
		w.Topics, w.Goroutines, w.Buses, w.Slow, w.Split, w.Extra = 1, 1, 1, 0, false, min(w.Extra, fewExtra)
	}},
	{keyBatches, func(s *Settings) bool { return s.Batch > 0 }, func(s *Settings, w *worker.Spec) { w.Batch = s.Batch }},
	{"lossless", func(s *Settings) bool { return s.Loss > 0 }, func(_ *Settings, w *worker.Spec) { w.Faults = "" }},
	{keyWildcard, func(s *Settings) bool { return s.Wildcard }, func(_ *Settings, w *worker.Spec) { w.Wildcard = true }},
	{keySealed, func(s *Settings) bool { return s.Sealed || s.Attacker != AttackerNone }, func(_ *Settings, w *worker.Spec) { w.Sealed = true }},
	{keySealedLossless, func(s *Settings) bool { return s.Sealed && s.Loss > 0 }, func(_ *Settings, w *worker.Spec) { w.Sealed, w.Faults = true, "" }},
	{keySigned, func(s *Settings) bool { return s.Signed }, func(_ *Settings, w *worker.Spec) { w.Signed = true }},
	{keyMetrics, func(s *Settings) bool { return s.Metrics != "" }, func(s *Settings, w *worker.Spec) { w.Metrics = s.Metrics }},
	{keyTop, func(s *Settings) bool { return s.Top }, func(s *Settings, w *worker.Spec) { w.Metrics, w.LookedAt = s.Metrics, true }},
	{keyAlone, func(s *Settings) bool { return s.Alone }, func(_ *Settings, w *worker.Spec) { w.Subs, w.Here = 1, min(w.Here, 1) }},
	{keyOneLeg, func(s *Settings) bool { return len(s.Legs) > 0 }, func(_ *Settings, w *worker.Spec) { w.Legs = nil }},
}, slices.Concat(stoppedVariants(), joinVariants(), attackVariants())...)

// variant is Fanfare, or a baseline, set somewhat differently.
type variant struct {
	key   string
	when  func(*Settings) bool
	tweak func(*Settings, *worker.Spec)
}

// baselineVariants are those of baselines, by name: they stand behind it in results.
var baselineVariants = map[string][]variant{
	contenders.Raw: {{keyRawOne, func(s *Settings) bool { return s.Topics > 1 }, func(_ *Settings, w *worker.Spec) { w.Topics = 1 }}},
	contenders.UDP: {{keyUDPFrames, func(s *Settings) bool { return s.MTU != s.socketMTU() }, func(s *Settings, w *worker.Spec) { s.overUDP(w, s.socketMTU()) }}},
}

// rateRatio is what rates are divided for a contestant's ratio, and what is said of that where it is not ours by it.
type rateRatio struct{ of, by, note string }

// rateRatioOf is that of a contestant: ours by it, unless it is another way of ours, or of a baseline.
func rateRatioOf(key string) rateRatio {
	switch key {
	case keySealedLossless:
		return rateRatio{keySealed, key, "sealed"}
	case keyRawOne:
		return rateRatio{contenders.Raw, key, "raw"}
	case keyWildcard, keyBatches, keySealed, keySigned:
		return rateRatio{key, keyOurs, "of ours"}
	}
	if of, stopped := pairOf(key); stopped {
		return rateRatio{key, of, ""}
	}
	return rateRatio{keyOurs, key, ""}
}

// rank is where a contestant stands in results: a variant, or behind them a baseline; peers
// are the last.
func rank(key string) int {
	for i, v := range variants {
		if v.key == key {
			return i
		}
	}
	of := func(b contenders.Baseline) bool {
		return b.Name == key || slices.ContainsFunc(baselineVariants[b.Name], func(v variant) bool { return v.key == key })
	}
	if i := slices.IndexFunc(contenders.Baselines, of); i >= 0 {
		return len(variants) + i
	}
	return len(variants) + len(contenders.Baselines)
}

// IsOurs reports whether a contestant is Fanfare over the transport that was set.
func IsOurs(key string) bool { return rank(key) < len(variants) }

// isFanfare reports whether a contestant repairs what is lost.
func isFanfare(key string) bool {
	return IsOurs(key) || key == contenders.UDP || key == keyUDPFrames
}

// contestants are Fanfare, its variants and the baselines.
func (b *Bench) contestants() (all []contestant) {
	all = b.those(variants, contenders.Fanfare)
	for _, name := range b.Baselines {
		c := contestant{key: name, contender: name}
		if name == contenders.UDP {
			c.tweak = func(w *worker.Spec) { b.overUDP(w, b.MTU) }
		}
		all = append(append(all, c), b.those(baselineVariants[name], name)...)
	}
	return all
}

// those are the variants of a contender that take part.
func (b *Bench) those(list []variant, contender string) (all []contestant) {
	for _, v := range list {
		if v.when(&b.Settings) {
			all = append(all, contestant{v.key, contender, func(w *worker.Spec) { v.tweak(&b.Settings, w) }})
		}
	}
	return all
}

// contest lets all contestants take turns, and adds what there is of it to r.
func (b *Bench) contest(ctx context.Context, r *Result, what string, load worker.Load) error {
	all := b.contestants()
	switch load {
	case worker.LoadFull:
	case worker.LoadIdle:
		all = all[:1]
	default: // a message a packet, whatever its size
		all = slices.DeleteFunc(all, func(c contestant) bool { return c.key == keyUDPFrames })
	}
	runs, err := b.rounds(ctx, what, load, all)
	if len(runs) == 0 {
		return err
	}
	switch load {
	case worker.LoadFull:
		of := fullMetrics
		if b.Stopped > 0 {
			of = slices.Concat(of, stoppedMetrics)
		}
		if b.Attacker != AttackerNone {
			of = slices.Concat(of, attackMetrics)
		}
		if b.Metrics != "" || b.Top {
			of = slices.Concat(of, watchedMetrics)
		}
		p := b.point("", of, runs, nil)
		if p.rateRatios(b.Baselines); b.Attacker != AttackerNone {
			p.attackRatios()
		}
		r.Points = append(r.Points, p)
	case worker.LoadIdle:
		r.Points = append(r.Points, Point{Settings: b.Settings, Rows: rows("", idleMetrics, runs[keyOurs])})
	default:
		of := lateMetrics
		if b.Joiners > 0 {
			of = slices.Concat(of, joinMetrics)
		}
		p := b.point("", of, runs, func(o *outcome) *hdrhistogram.Histogram { return o.late })
		p.lateRatios()
		if b.Joiners > 0 {
			p.joinRatios()
		}
		if r.Points = append(r.Points, p); load == worker.LoadBurst {
			r.Points = append(r.Points, b.point("bursts", burstMetrics, runs, func(o *outcome) *hdrhistogram.Histogram { return o.burst }))
		}
	}
	return err
}

// point sums up runs by contestant; curve picks the histogram of each that its curve is made
// of, and nil: none.
func (b *Bench) point(name string, all []metric, runs map[string][]*outcome, curve func(*outcome) *hdrhistogram.Histogram) Point {
	p := Point{Name: name, Settings: b.Settings, Details: make(map[string]Detail)}
	keys := make([]string, 0, len(runs))
	for key := range runs {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
	for _, key := range keys {
		p.Rows = append(p.Rows, rows(key, all, runs[key])...)
		var d Detail
		var late []*hdrhistogram.Histogram
		for _, o := range runs[key] {
			d.Publisher = o.pub.Figures
			if len(o.subs) > 0 {
				d.Subscriber = o.subs[0].Figures
			}
			if curve != nil {
				late = append(late, curve(o))
			}
		}
		if curve != nil {
			d.Curve = curveOf(late)
		}
		p.Details[key] = d
	}
	return p
}

func (p *Point) addRatio(name string, a, b Row) {
	p.Rows = append(p.Rows, newRow("", "ratio_"+name, "", asRatio, ratios(a.Runs, b.Runs)))
}

// rateRatios divides messages a second: those of ours, and those of batches by the
// baselines.
func (p *Point) rateRatios(baselines []string) {
	rate := func(key string) Row { return p.Row(key, "msgs_per_s") }
	for _, key := range p.Keys() {
		switch x := rateRatioOf(key); key {
		case keyOurs, keyAttacked, keySpun: // none, or attackRatios
		case keyMetrics, keyTop:
			p.Rows = append(p.Rows, newRow("", "ratio_"+key, "", asRatio, p.Row(key, "watched").Runs))
		default:
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
			if key != keyOurs && key != keyJoins && key != keyStay {
				p.addRatio(q.key+"_"+key, p.Row(keyOurs, q.key+"_us"), p.Row(key, q.key+"_us"))
			}
		}
	}
}
