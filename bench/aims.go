package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Aim is a figure that Fanfare should reach.
type Aim struct {
	Name    string  `json:"name"`
	Command string  `json:"command"` // the command that measures it alone
	Seen    float64 `json:"seen"`
	Want    float64 `json:"want"`
	Max     bool    `json:"most"` // Want is an upper limit, otherwise a lower limit
	Unit    string  `json:"unit,omitempty"`
	Met     bool    `json:"met"`
	// Baseline holds figures of baselines from the same run, which show what the machine can do.
	Baseline string `json:"beside,omitempty"`
	ratio    Spread // of a target, over its runs
}

// String is the text for a target.
func (a Aim) String() string {
	return fmt.Sprintf("%s: %.2f of %s (%.2f-%.2f), the target is %.2f", verdict(a.Met), a.Seen, a.Name, a.ratio.Min, a.ratio.Max, a.Want)
}

// step is a command of fanfare bench and what its result is judged by.
type step struct {
	command string // of fanfare bench; the suite's -runs are an upper limit, and its -seconds a lower one
	aims    []aimed
}

// aimed is an aim before it is measured. A figure is CONTESTANT.METRIC, or METRIC for ratios; STEP:
// before it selects an earlier step by its number.
type aimed struct {
	name string
	seen string // a figure, or two figures with / or - between them
	bound
	baseline string // figures
}

// bound is the lower or upper limit of a figure.
type bound struct {
	want  float64
	isMax bool
}

func atLeast(want float64) bound { return bound{want, false} }
func atMost(want float64) bound  { return bound{want, true} }

const (
	mebibyte = 1 << 20
	// ofRaw is 80 M messages/s relative to the 92 M of the raw loop over UDP.
	ofRaw = 80.0 / 92
)

// steps are all aims of Fanfare (docs/performance.md), over UDP, shared memory and in process.
// Later steps refer to figures of the first four.
var steps = []step{
	{"throughput -batch 16 -baseline raw,naive", []aimed{
		{"64 bytes, share of raw", "ratio_raw", atLeast(0.7), "raw.msgs_per_s"},
		{"64 bytes in batches, share of raw", "ratio_batches_raw", atLeast(0.7), "batches.msgs_per_s"},
		{"64 bytes", "ours.msgs_per_s", atLeast(55e6), "raw.msgs_per_s"},
		{"64 bytes, share of naive", "ratio_naive", atLeast(200), "naive.msgs_per_s raw.msgs_per_s"},
		{"allocations a message", "ours.allocs_per_msg", atMost(0), ""},
		{"publisher's memory", "ours.publisher_rss_bytes", atMost(64), ""},
		{"subscriber's memory", "ours.subscriber_rss_bytes", atMost(64), ""},
	}},
	{"throughput -size 1400", nil},
	{"throughput -transport shm -batch 16 -baseline ring,udp,raw", []aimed{
		{"shared memory, share of a ring", "ratio_ring", atLeast(0.6), "ours.msgs_per_s ring.msgs_per_s"},
		{"shared memory in batches, share of a ring", "ratio_batches_ring", atLeast(0.6), "batches.msgs_per_s"},
		{"shared memory, relative to UDP", "ratio_udp-frames", atLeast(2), "udp-frames.msgs_per_s"},
		{"shared memory, relative to UDP with equally large packets", "ratio_udp", atLeast(2), "udp.msgs_per_s"},
		{"shared memory, share of raw over UDP", "ratio_raw", atLeast(ofRaw), "raw.msgs_per_s"},
		{"shared memory, sleeps of all threads a message", "ours.sleeps_per_msg", atMost(0.01), ""},
	}},
	{"throughput -size 1024 -baseline raw", []aimed{
		{"1 KiB, payload, share of raw", "ratio_raw", atLeast(0.95), "ours.bytes_per_s raw.bytes_per_s"}}},
	{"throughput -mtu 65507 -baseline raw", []aimed{
		{"64 KiB datagrams, relative to 1472", "ours.msgs_per_s / 1:ours.msgs_per_s", atLeast(0.9), ""}}},
	{"throughput -receive messages", []aimed{
		{"64 bytes read with Messages, relative to a handler", "ours.msgs_per_s / 1:ours.msgs_per_s", atLeast(0.5), "ours.msgs_per_s"}}},
	{"throughput -subs 4 -baseline raw", []aimed{
		{"four subscribers, each, share of raw", "ratio_raw", atLeast(0.65), "ours.msgs_per_s raw.msgs_per_s"}}},
	{"throughput -subs 16 -baseline raw", []aimed{
		{"the publisher's own code, 16 subscribers, relative to one", "ours.publisher_user_s_per_mmsg / 1:ours.publisher_user_s_per_mmsg", atMost(1.1),
			"raw.publisher_user_s_per_mmsg 1:raw.publisher_user_s_per_mmsg"}}},
	{"throughput -metrics localhost:0 -top -seconds 1", []aimed{
		{"with metrics, relative to without", "ratio_metrics", atLeast(0.98), ""},
		{"with metrics and top, relative to without", "ratio_top", atLeast(0.98), ""}}},
	{"latency -wait park -baseline raw", []aimed{
		{"parking, p50 relative to raw", "ratio_p50_raw", atMost(1.3), "raw.p50_us"},
		{"parking, p99 relative to raw", "ratio_p99_raw", atMost(2), "raw.p99_us"}}},
	{"latency -wait spin -baseline raw", []aimed{
		{"spinning, p50 relative to raw", "ratio_p50_raw", atMost(1.5), "raw.p50_us"}}},
	{"latency -loss 0.01 -baseline raw", []aimed{
		{"latency at 1 % loss, p99", "ours.p99_us", atMost(300), "lossless.p99_us raw.p99_us"},
		{"latency at 1 % loss, p99.9 relative to lossless", "ratio_p999_lossless", atMost(3), ""}}},
	{"throughput -loss 0.01", []aimed{{"1 % loss, share of lossless", "ratio_lossless", atLeast(0.8), "ours.msgs_per_s"}}},
	{"throughput -loss 0.1", []aimed{{"10 % loss, share of lossless", "ratio_lossless", atLeast(0.4), "ours.msgs_per_s"}}},
	{"throughput -loss 0.3", []aimed{{"30 % loss, share of lossless", "ratio_lossless", atLeast(0.01), "ours.msgs_per_s"}}},
	{"throughput -transport mem -receive batch -batch 16 -baseline channel,raw", []aimed{
		{"in process, share of raw over UDP", "ratio_raw", atLeast(ofRaw), "ours.msgs_per_s raw.msgs_per_s"},
		{"in process in batches, share of raw over UDP", "ratio_batches_raw", atLeast(ofRaw), "batches.msgs_per_s"},
		{"in process, relative to a channel", "ratio_channel", atLeast(3), "channel.msgs_per_s"}}},
	{"idle", []aimed{
		{"idle publisher", "publisher_cpu_percent", atMost(0.5), ""},
		{"idle subscriber", "subscriber_cpu_percent", atMost(0.5), ""}}},
	{"throughput -keys", []aimed{{"64 bytes with keys, relative to without", "ratio_sealed", atLeast(0.45), "sealed.msgs_per_s"}}},
	{"throughput -keys -size 1024", []aimed{{"1 KiB with keys, relative to without", "ratio_sealed", atLeast(0.45), "sealed.bytes_per_s"}}},
	{"throughput -keys -loss 0.01", []aimed{
		{"share kept at 1 % loss with keys, relative to without", "ratio_sealed-lossless / ratio_lossless", atLeast(0.95), "ratio_sealed-lossless ratio_lossless"}}},
	{"latency -keys", []aimed{{"p50 with keys, additional", "sealed.p50_us - ours.p50_us", atMost(3), "sealed.p50_us ours.p50_us"}}},
	{"throughput -sign", []aimed{{"64 bytes, signed", "signed.msgs_per_s", atLeast(8e6), "ours.msgs_per_s"}}},
	{"latency -sign", []aimed{{"p50 signed, additional", "signed.p50_us - ours.p50_us", atMost(150), "signed.p50_us ours.p50_us"}}},
	// Messages larger than a packet, relative to the payload rate of messages that just fit in one.
	{"throughput -size 1408", []aimed{{"1408 bytes, payload, relative to 1400 bytes", "ours.bytes_per_s / 2:ours.bytes_per_s", atLeast(0.6), "ours.bytes_per_s"}}},
	{"throughput -size 2000", []aimed{{"2000 bytes, payload, relative to 1400 bytes", "ours.bytes_per_s / 2:ours.bytes_per_s", atLeast(0.6), "ours.bytes_per_s"}}},
	// Many topics, publishers or subscriptions, relative to one of each in the same run, with the ratio of raw for the
	// same topics.
	{"throughput -topics 16 -runs 3 -baseline raw", []aimed{
		{"16 topics in turn, relative to one", "ratio_one", atLeast(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"}}},
	{"throughput -topics 1000 -runs 3 -baseline raw", []aimed{
		{"1,000 topics in turn, relative to one", "ratio_one", atLeast(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"},
		{"1,000 topics in turn", "ours.msgs_per_s", atLeast(10e6), "one.msgs_per_s"},
		{"publisher's memory, many groups", "ours.publisher_rss_bytes", atMost(64), ""},
		{"publisher's heap, many groups", "ours.publisher_heap_bytes", atMost(64), ""}}},
	{"throughput -topics 10000 -runs 3 -baseline raw", []aimed{
		{"10,000 topics in turn, relative to one", "ratio_one", atLeast(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"}}},
	{"throughput -topics 1000 -order zipf -runs 3 -baseline raw", []aimed{
		{"1,000 topics by Zipf's law, relative to one", "ratio_one", atLeast(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"}}},
	{"throughput -topics 1000 -order bursts -runs 3 -baseline raw", []aimed{
		{"1,000 topics in bursts of 10 to 100, relative to one", "ratio_one", atLeast(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"}}},
	{"throughput -topics 1000 -wildcard -runs 3", []aimed{
		{"1,000 topics by a pattern, relative to by name", "ratio_wildcard", atLeast(0.9), "wildcard.msgs_per_s"}}},
	{"throughput -topics 1000 -goroutines 4 -runs 3", []aimed{
		{"1,000 topics from four goroutines, relative to one", "ratio_one", atLeast(0.7), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -topics 1000 -subs 4 -split -runs 3", []aimed{
		{"1,000 topics split among four subscribers, relative to one topic to four", "ratio_one", atLeast(0.7), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -pubs 8 -runs 3", []aimed{{"8 publishers, relative to one", "ratio_one", atLeast(0.6), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -pubs 32 -runs 3", []aimed{{"32 publishers, relative to one", "ratio_one", atLeast(0.6), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -pubs 64 -runs 3", []aimed{{"64 publishers, relative to one", "ratio_one", atLeast(0.6), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -extra-subscriptions 10000 -runs 3", []aimed{
		{"10,000 subscriptions, relative to ten", "ratio_one", atLeast(0.9), "ours.msgs_per_s one.msgs_per_s"}}},
	{"latency -topics 1000 -runs 3", []aimed{{"1,000 topics, p50 relative to one", "ratio_p50_one", atMost(1.3), "ours.p50_us one.p50_us"}}},
	{"throughput -transport shm -receive messages", []aimed{
		{"shared memory, read with Messages, relative to a handler", "ours.msgs_per_s / 3:ours.msgs_per_s", atLeast(0.5), "ours.msgs_per_s"}}},
	{"throughput -transport shm -subs 4 -alone -baseline ring", []aimed{
		{"shared memory, each of four subscribers, relative to one", "ratio_alone", atLeast(0.6), "alone.msgs_per_s ring.msgs_per_s"}}},
	{"throughput -transport shm -size 1024 -baseline ring", []aimed{
		{"shared memory, 1 KiB, payload", "ours.bytes_per_s", atLeast(12e9), "ring.bytes_per_s"}}},
	{"latency -transport shm -wait spin -baseline ring", []aimed{
		{"shared memory, spinning, p50", "ours.p50_us", atMost(0.5), "ring.p50_us"}}},
	{"latency -transport shm -wait park", []aimed{{"shared memory, parking, p50", "ours.p50_us", atMost(10), ""}}},
	{"throughput -runs 1 -seconds 10", []aimed{
		{"longest GC pause in 10 s", "ours.gc_pause_max_us", atMost(1000), "ours.gc_cycles"}}},
}

// aims measures and evaluates all aims.
func (b *Bench) aims(ctx context.Context, r *Result) error {
	r.Aims = []Aim{}
	for i, step := range steps {
		one := *b
		scenario, err := one.command(step.command)
		if err != nil {
			return err
		}
		one.Runs, one.Seconds = min(one.Runs, b.Runs), max(one.Seconds, b.Seconds)
		one.Progress = func(what string) { b.progress("step %d of %d: %s", i+1, len(steps), what) }
		part, err := one.Run(ctx, scenario)
		if part != nil {
			r.Parts = append(r.Parts, part)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", scenario, err)
		}
		for _, a := range step.aims {
			r.Aims = append(r.Aims, r.judge(a, step.command))
		}
	}
	return nil
}

// judge evaluates an aim for the latest step.
func (r *Result) judge(a aimed, command string) Aim {
	seen, op, other := a.seen, "", ""
	if words := strings.Fields(a.seen); len(words) == 3 {
		seen, op, other = words[0], words[1], words[2]
	}
	x, unit := r.figure(seen)
	y, _ := r.figure(other)
	switch op {
	case "/":
		x, unit = x/max(y, 1e-12), ""
	case "-":
		x -= y
	}
	var baselines []string
	for _, name := range strings.Fields(a.baseline) {
		baselines = append(baselines, r.baselineText(name))
	}
	return Aim{
		Name: a.name, Command: "fanfare bench " + command, Seen: x, Want: a.want, Max: a.isMax, Unit: unit,
		Met: a.isMax && x <= a.want || !a.isMax && x >= a.want, Baseline: strings.Join(baselines, ", "),
	}
}

// units of metrics, by the suffix of their keys.
var units = []struct {
	suffix, unit string
	scale        float64
}{
	{"bytes_per_s", "B/s", 1}, {"_per_s", "/s", 1}, {"_us", "µs", 1}, {"_bytes", "MiB", 1.0 / mebibyte}, {"_percent", "% of a core", 1},
	{"_s_per_mmsg", "µs a message", 1}, {"gc_cycles", "cycles", 1},
}

// figure returns a figure by its name, and its unit.
func (r *Result) figure(name string) (x float64, unit string) {
	part := r.Parts[len(r.Parts)-1]
	if number, rest, earlier := strings.Cut(name, ":"); earlier {
		part, name = r.Parts[number[0]-'1'], rest
	}
	contestant, metric, found := strings.Cut(name, ".")
	if !found {
		contestant, metric = "", name
	}
	x = part.Contest().Value(contestant, metric)
	for _, u := range units {
		if strings.HasSuffix(metric, u.suffix) {
			return x * u.scale, u.unit
		}
	}
	return x, ""
}

// baselineText is the text of a figure with its contestant.
func (r *Result) baselineText(name string) string {
	x, unit := r.figure(name)
	if key, is := strings.CutPrefix(name, "ratio_"); is {
		c := ratioOf(key)
		return fmt.Sprintf("%s %.2f of %s", c.of, x, c.by)
	}
	contestant, _, _ := strings.Cut(name, ".")
	return strings.Replace(contestant, ":", ": ", 1) + " " + withUnit(x, unit)
}

// withUnit formats a figure with its unit.
func withUnit(x float64, unit string) string {
	if unit != "" && unit != "/s" && unit != "B/s" {
		unit = " " + unit
	}
	return Short(x) + unit
}

// Missed returns the missed aims.
func (r *Result) Missed() []Aim {
	return slices.DeleteFunc(slices.Clone(r.Aims), func(a Aim) bool { return a.Met })
}
