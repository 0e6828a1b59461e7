package bench

import (
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// metric is a figure of every run of a contestant, and a column of tables.
type metric struct {
	key  string // Row.Metric
	form form
	of   func(o *outcome) float64 // NaN: unknown for this run; nil: only a column
	column
}

// column is the form of a metric in tables.
type column struct {
	head   string // empty: not in tables
	format string // of the value times scale; empty: Short; or minAndMax
	scale  float64
	page   bool // only in pages, which have more room
}

const minAndMax = "min – max"

const microsecond = 1e3 // seconds for a million messages are microseconds for each: as nanoseconds

// Metrics of each run, by scenario.
var (
	runsMetric = metric{key: "runs", form: asSum, of: func(*outcome) float64 { return 1 }}
	// lossMetrics apply to all scenarios with traffic, and sum all subscribers.
	lossMetrics = []metric{
		{"lost", asSum, (*outcome).lost, integer("lost")},
		{"lost_share", asMean, func(o *outcome) float64 { return o.lost() / max(o.allDue(), 1) }, column{}},
		{"gaps", asSum, ofSubs(func(s *worker.Report) float64 { return float64(s.Gaps) }), column{}},
	}

	// fullMetrics apply to full load.
	fullMetrics = append([]metric{
		runsMetric,
		// The rate of the slowest subscriber, from the publisher's first call to the last message, and
		// its payload; then the publisher's rate, which is higher if messages are lost.
		{"msgs_per_s", asSpread, (*outcome).msgsPerS, column{head: "msgs/s"}},
		{key: "msgs_per_s", column: column{head: minAndMax, format: minAndMax}},
		{"bytes_per_s", asSpread, func(o *outcome) float64 { return o.msgsPerS() * float64(o.spec.Size) },
			column{head: "MB/s", format: "%.0f", scale: 1e-6}},
		{"published_per_s", asSpread, func(o *outcome) float64 { return perSecond(float64(o.pub.Messages), o.pub) }, column{}},
		// Messages in a packet, and in one system call, on average: only for contestants that count them.
		{"msgs_per_packet", asSpread, func(o *outcome) float64 { return by(float64(o.pub.Messages), o.pub.Figures["packets"]) },
			column{head: "msgs/packet", format: "%.1f", scale: 1}},
		{"msgs_per_train", asSpread, func(o *outcome) float64 { return by(float64(o.pub.Messages), o.pub.Figures["send_calls"]) },
			column{head: "msgs/train", format: "%.1f", scale: 1}},
		// CPU time of all processes, in seconds per million messages delivered to each subscriber.
		{"cpu_s_per_mmsg", asSpread, func(o *outcome) float64 { return (o.pubCPU() + o.subCPU()) / max(o.delivered(), 1) * 1e6 },
			column{head: "CPU s/M", format: "%.3g", scale: 1}},
		// The same for each side, per million messages published. Subscribers are added up. If all sides
		// are in one process it counts as the publisher's.
		{"publisher_user_s_per_mmsg", asSpread, func(o *outcome) float64 { return o.perMmsg(o.pub.Usage.User) },
			column{head: "publisher ns/msg: own code", format: "%.1f", scale: microsecond, page: true}},
		{"publisher_system_s_per_mmsg", asSpread, func(o *outcome) float64 { return o.perMmsg(o.pub.Usage.System) },
			column{head: "kernel", format: "%.1f", scale: microsecond, page: true}},
		{"subscriber_user_s_per_mmsg", asSpread, func(o *outcome) float64 {
			return o.perMmsg(ofSubs(func(s *worker.Report) float64 { return s.Usage.User })(o))
		}, column{head: "subscribers ns/msg: own code", format: "%.1f", scale: microsecond, page: true}},
		{"subscriber_system_s_per_mmsg", asSpread, func(o *outcome) float64 {
			return o.perMmsg(ofSubs(func(s *worker.Report) float64 { return s.Usage.System })(o))
		}, column{head: "kernel", format: "%.1f", scale: microsecond, page: true}},
		// Of all processes, with three decimals.
		{"allocs_per_msg", asMax, (*outcome).allocsPerMsg, column{head: "allocs/msg", format: "%.3g", scale: 1}},
		// Number of times that a thread went to sleep.
		{"sleeps_per_msg", asSpread, func(o *outcome) float64 {
			return ofAll(add, func(r *worker.Report) float64 { return float64(r.Usage.Sleeps) })(o) / max(float64(o.pub.Messages), 1)
		}, column{}},
		{"gc_cycles", asSum, ofAll(add, func(r *worker.Report) float64 { return float64(r.Usage.GCCycles) }), column{}},
		{"gc_pause_max_us", asMax, ofAll(math.Max, func(r *worker.Report) float64 { return r.Usage.GCPauseMax * 1e6 }),
			column{head: "longest GC pause, µs", format: "%.0f", scale: 1, page: true}},
		// Peak resident memory, for the largest subscriber, and Go's heap at the end. Unknown for sides
		// that share a process.
		{"publisher_rss_bytes", asMax, func(o *outcome) float64 { return known(o.pub.Usage.PeakRSS) }, mebibytes("publisher, MiB")},
		{"publisher_heap_bytes", asMax, func(o *outcome) float64 { return known(o.pub.Usage.Heap) }, mebibytes("of it Go's heap")},
		{"subscriber_rss_bytes", asMax, fold(math.Max, 0, func(r *worker.Report) float64 { return known(r.Usage.PeakRSS) }),
			mebibytes("subscriber, MiB")},
	}, lossMetrics...)

	// lateMetrics apply to scenario latency: microseconds from the time when a message was due to its delivery.
	lateMetrics = slices.Concat([]metric{runsMetric}, timeMetrics(), []metric{
		{"messages", asSum, func(o *outcome) float64 { return float64(o.late.TotalCount()) }, column{}}, // measured
		{"msgs_per_s", asSpread, (*outcome).msgsPerS, column{head: "msgs/s"}},
	}, lossMetrics, []metric{cpuMetric})

	// requestMetrics apply to scenario request: microseconds from a request to its last reply.
	requestMetrics = slices.Concat([]metric{runsMetric}, timeMetrics(), []metric{
		{"requests_per_s", asSpread, func(o *outcome) float64 { return perSecond(float64(o.pub.Messages), o.pub) }, integer("requests/s")},
		{"answered", asSum, func(o *outcome) float64 { return float64(o.pub.Messages) }, integer("answered")},
		{"replies", asSum, func(o *outcome) float64 { return o.pub.Figures["replies"] }, integer("replies")},
		{"executed", asSum, ofSubs(func(s *worker.Report) float64 { return float64(s.Messages) }), integer("executed")}, // by all responders
		cpuMetric,
	})

	// cpuMetric is CPU time in percent of one core, of all processes together.
	cpuMetric = metric{"cpu_percent", asSpread, func(o *outcome) float64 { return perSecond(100*(o.pubCPU()+o.subCPU()), o.pub) }, integer("CPU %")}

	// idleMetrics apply to a bus without traffic. CPU time is in percent of one core; sleeps count how often a
	// thread of the process went to sleep. For subscribers they are means, and the memory of the largest.
	idleMetrics = []metric{
		runsMetric,
		{key: "publisher_cpu_percent", of: func(o *outcome) float64 { return perSecond(100*o.pubCPU(), o.pub) }},
		{key: "subscriber_cpu_percent", of: meanOfSubs(func(s *worker.Report) float64 { return perSecond(100*(s.Usage.User+s.Usage.System), s) })},
		{key: "publisher_sleeps_per_s", of: func(o *outcome) float64 { return perSecond(float64(o.pub.Usage.Sleeps), o.pub) }},
		{key: "subscriber_sleeps_per_s", of: meanOfSubs(func(s *worker.Report) float64 { return perSecond(float64(s.Usage.Sleeps), s) })},
		{key: "publisher_rss_bytes", form: asMax, of: func(o *outcome) float64 { return float64(o.pub.Usage.PeakRSS) }},
		{key: "subscriber_rss_bytes", form: asMax, of: fold(math.Max, 0, func(r *worker.Report) float64 { return float64(r.Usage.PeakRSS) })},
	}
)

// integer is a column of integers.
func integer(head string) column { return column{head: head, format: "%.0f", scale: 1} }

// mebibytes is a column of sizes, only in pages.
func mebibytes(head string) column {
	return column{head: head, format: "%.0f", scale: 1.0 / mebibyte, page: true}
}

// known converts a size; NaN if unknown.
func known(bytes uint64) float64 {
	if bytes == 0 {
		return math.NaN()
	}
	return float64(bytes)
}

// quantiles of latency, with their keys.
var quantiles = []struct {
	key string
	at  float64
}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p999", 99.9}}

func timeMetrics() (all []metric) {
	for _, q := range quantiles {
		all = append(all, metric{q.key + "_us", asQuantile, func(o *outcome) float64 { return micros(o.late.ValueAtQuantile(q.at)) },
			column{head: strings.Replace(q.key, "999", "99.9", 1), format: "%.1f", scale: 1}})
	}
	return append(all, metric{"max_us", asPeak, func(o *outcome) float64 { return micros(o.late.Max()) },
		column{head: "max", format: "%.1f", scale: 1}})
}

// rows returns a contestant's figures.
func rows(contestant string, all []metric, runs []*outcome) (list []Row) {
	for _, m := range all {
		if m.of == nil {
			continue
		}
		values := []float64{}
		for _, o := range runs {
			if x := m.of(o); !math.IsNaN(x) {
				values = append(values, x)
			}
		}
		list = append(list, newRow(contestant, m.key, m.form, values))
	}
	return list
}

func add(a, b float64) float64 { return a + b }

// by returns a/b, NaN without b.
func by(a, b float64) float64 {
	if b <= 0 {
		return math.NaN()
	}
	return a / b
}

// perSecond divides x by the duration of a side's measurement.
func perSecond(x float64, r *worker.Report) float64 { return by(x, float64(r.End-r.Start)/1e9) }

// fold combines a figure over all subscribers.
func fold(with func(a, b float64) float64, from float64, of func(*worker.Report) float64) func(*outcome) float64 {
	return func(o *outcome) float64 {
		x := from
		for _, s := range o.subs {
			x = with(x, of(s))
		}
		return x
	}
}

func ofSubs(of func(*worker.Report) float64) func(*outcome) float64 { return fold(add, 0, of) }

// ofAll also includes the publisher.
func ofAll(with func(a, b float64) float64, of func(*worker.Report) float64) func(*outcome) float64 {
	return func(o *outcome) float64 { return fold(with, of(o.pub), of)(o) }
}

func meanOfSubs(of func(*worker.Report) float64) func(*outcome) float64 {
	return func(o *outcome) float64 { return by(ofSubs(of)(o), float64(len(o.subs))) }
}

func (o *outcome) pubCPU() float64 { return o.pub.Usage.User + o.pub.Usage.System }

func (o *outcome) subCPU() float64 {
	return ofSubs(func(s *worker.Report) float64 { return s.Usage.User + s.Usage.System })(o)
}

// perMmsg is x per million messages published.
func (o *outcome) perMmsg(x float64) float64 { return x / max(float64(o.pub.Messages), 1) * 1e6 }

func (o *outcome) allocsPerMsg() float64 {
	all := ofAll(add, func(r *worker.Report) float64 { return float64(r.Usage.Allocs) })(o)
	return math.Round(all/max(float64(o.pub.Messages), 1)*1e3) / 1e3
}

// msgsPerS is the rate of the slowest subscriber. With Split the rate of a subscriber is
// extrapolated to all messages by its share.
func (o *outcome) msgsPerS() float64 {
	rate := math.Inf(1)
	for i, s := range o.subs {
		if elapsed := float64(s.End-o.pub.Start) / 1e9; elapsed > 0 {
			rate = min(rate, float64(s.Timed)/elapsed/o.share(i))
		} else {
			rate = 0
		}
	}
	if math.IsInf(rate, 1) {
		return 0
	}
	return rate
}

// delivered is the smallest number of messages that a subscriber received, extrapolated by its share.
func (o *outcome) delivered() float64 {
	n := float64(o.pub.Messages)
	for i, s := range o.subs {
		n = min(n, float64(s.Messages)/o.share(i))
	}
	return n
}

// lost is the number of messages that subscribers lack, out of allDue.
func (o *outcome) lost() float64 {
	return o.allDue() - ofSubs(func(s *worker.Report) float64 { return float64(s.Messages) })(o)
}

func (o *outcome) allDue() (n float64) {
	for i := range o.subs {
		n += float64(o.due(i))
	}
	return n
}

func micros(ns int64) float64 { return math.Round(float64(ns)/10) / 100 }

// curveOf samples all histograms together, with increasing density towards 100 %, as far as the number of messages
// allows.
func curveOf(all []*hdrhistogram.Histogram) (curve []CurvePoint) {
	h := worker.NewHistogram()
	for _, one := range all {
		h.Merge(one)
	}
	for nines := 0.0; nines <= 6; nines += 0.1 {
		share := math.Pow(10, -nines)
		if share*float64(h.TotalCount()) < 1 {
			break
		}
		q := 100 * (1 - share)
		curve = append(curve, CurvePoint{q, micros(h.ValueAtQuantile(q))})
	}
	return append(curve, CurvePoint{100, micros(h.Max())})
}
