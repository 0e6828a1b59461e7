package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Aim is a figure that Fanfare is to reach.
type Aim struct {
	Name    string  `json:"name"`
	Command string  `json:"command"` // that measures it alone
	Seen    float64 `json:"seen"`
	Want    float64 `json:"want"`
	Most    bool    `json:"most"` // Want is the most it may be, and not the least
	Unit    string  `json:"unit,omitempty"`
	Met     bool    `json:"met"`
	// Beside is what a baseline did in the same run, which says what the machine can do.
	Beside string `json:"beside,omitempty"`
	ratio  Spread // of a target's runs
}

// String says whether a target is reached.
func (a Aim) String() string {
	return fmt.Sprintf("%s: %.2f of %s (%.2f-%.2f), the target is %.2f", verdict(a.Met), a.Seen, a.Name, a.ratio.Min, a.ratio.Max, a.Want)
}

// step is a command of fanfare bench and what its result is judged by.
type step struct {
	command string // -runs are at most those of aims, and -seconds at least
	aims    []aimed
}

// aimed is an aim before it is measured. A figure is CONTESTANT.METRIC, or of ratios METRIC alone, and one of an
// earlier step has that step's number before it, and a colon.
type aimed struct {
	name string
	seen string // a figure, or two with / or - between them
	bound
	beside string // figures
}

// bound is the least or the most that a figure may be.
type bound struct {
	want float64
	most bool
}

func least(want float64) bound { return bound{want, false} }
func most(want float64) bound  { return bound{want, true} }

const (
	mebibyte = 1 << 20
	// ofRaw is 80 M messages/s where the raw loop over UDP moves 92 M.
	ofRaw = 80.0 / 92
)

// steps are all that Fanfare aims at (docs/performance.md), over UDP, shared memory and in process. The steps that are
// compared with later are the first four.
var steps = []step{
	{"throughput -batch 16 -baseline raw,naive", []aimed{
		{"64 bytes, of raw", "ratio_raw", least(0.7), "raw.msgs_per_s"},
		{"64 bytes in batches, of raw", "ratio_batches_raw", least(0.7), "batches.msgs_per_s"},
		{"64 bytes", "ours.msgs_per_s", least(55e6), "raw.msgs_per_s"},
		{"64 bytes, of naive", "ratio_naive", least(200), "naive.msgs_per_s raw.msgs_per_s"},
		{"allocations a message", "ours.allocs_per_msg", most(0), ""},
		{"publisher's memory", "ours.publisher_rss_bytes", most(64), ""},
		{"subscriber's memory", "ours.subscriber_rss_bytes", most(64), ""},
	}},
	{"throughput -size 1400", nil},
	{"throughput -transport shm -batch 16 -baseline ring,udp,raw", []aimed{
		{"shared memory, of a ring", "ratio_ring", least(0.6), "ours.msgs_per_s ring.msgs_per_s"},
		{"shared memory in batches, of a ring", "ratio_batches_ring", least(0.6), "batches.msgs_per_s"},
		{"shared memory, of UDP", "ratio_udp-frames", least(2), "udp-frames.msgs_per_s"},
		{"shared memory, of UDP in packets as large", "ratio_udp", least(2), "udp.msgs_per_s"},
		{"shared memory, of raw over UDP", "ratio_raw", least(ofRaw), "raw.msgs_per_s"},
		{"shared memory, sleeps of all threads a message", "ours.sleeps_per_msg", most(0.01), ""},
	}},
	{"throughput -size 1024 -baseline raw", []aimed{
		{"1 KiB, payload, of raw", "ratio_raw", least(0.95), "ours.bytes_per_s raw.bytes_per_s"}}},
	{"throughput -mtu 65507 -baseline raw", []aimed{
		{"64 KiB datagrams, of the figure at 1472", "ours.msgs_per_s / 1:ours.msgs_per_s", least(0.9), ""}}},
	{"throughput -receive messages", []aimed{
		{"64 bytes ranged over (Messages), of a handler", "ours.msgs_per_s / 1:ours.msgs_per_s", least(0.5), "ours.msgs_per_s"}}},
	{"throughput -subs 4 -baseline raw", []aimed{
		{"four subscribers, each, of raw", "ratio_raw", least(0.65), "ours.msgs_per_s raw.msgs_per_s"}}},
	{"throughput -subs 16 -baseline raw", []aimed{
		{"the publisher's own code, 16 subscribers for one", "ours.publisher_user_s_per_mmsg / 1:ours.publisher_user_s_per_mmsg", most(1.1),
			"raw.publisher_user_s_per_mmsg 1:raw.publisher_user_s_per_mmsg"}}},
	{"throughput -metrics localhost:0 -top -seconds 1", []aimed{
		{"with metrics, of without", "ratio_metrics", least(0.98), ""},
		{"with metrics and top, of without", "ratio_top", least(0.98), ""}}},
	{"latency -wait park -baseline raw", []aimed{
		{"parking, p50 by raw", "ratio_p50_raw", most(1.3), "raw.p50_us"},
		{"parking, p99 by raw", "ratio_p99_raw", most(2), "raw.p99_us"}}},
	{"latency -wait spin -baseline raw", []aimed{
		{"spinning, p50 by raw", "ratio_p50_raw", most(1.5), "raw.p50_us"}}},
	{"latency -loss 0.01 -baseline raw", []aimed{
		{"latency at 1 % loss, p99", "ours.p99_us", most(300), "lossless.p99_us raw.p99_us"},
		{"latency at 1 % loss, p99.9 by lossless", "ratio_p999_lossless", most(3), ""}}},
	{"throughput -loss 0.01", []aimed{{"1 % loss, of lossless", "ratio_lossless", least(0.8), "ours.msgs_per_s"}}},
	{"throughput -loss 0.1", []aimed{{"10 % loss, of lossless", "ratio_lossless", least(0.4), "ours.msgs_per_s"}}},
	{"throughput -loss 0.3", []aimed{{"30 % loss, of lossless", "ratio_lossless", least(0.01), "ours.msgs_per_s"}}},
	{"throughput -transport mem -receive batch -batch 16 -baseline channel,raw", []aimed{
		{"in process, of raw over UDP", "ratio_raw", least(ofRaw), "ours.msgs_per_s raw.msgs_per_s"},
		{"in process in batches, of raw over UDP", "ratio_batches_raw", least(ofRaw), "batches.msgs_per_s"},
		{"in process, of a channel", "ratio_channel", least(3), "channel.msgs_per_s"}}},
	{"idle", []aimed{
		{"idle publisher", "publisher_cpu_percent", most(0.5), ""},
		{"idle subscriber", "subscriber_cpu_percent", most(0.5), ""}}},
	{"throughput -keys", []aimed{{"64 bytes with keys, of without", "ratio_sealed", least(0.45), "sealed.msgs_per_s"}}},
	{"throughput -keys -size 1024", []aimed{{"1 KiB with keys, of without", "ratio_sealed", least(0.45), "sealed.bytes_per_s"}}},
	{"throughput -keys -loss 0.01", []aimed{
		{"1 % loss with keys: kept, of what is kept without", "ratio_sealed-lossless / ratio_lossless", least(0.95), "ratio_sealed-lossless ratio_lossless"}}},
	{"latency -keys", []aimed{{"p50 with keys, beyond without", "sealed.p50_us - ours.p50_us", most(3), "sealed.p50_us ours.p50_us"}}},
	{"throughput -sign", []aimed{{"64 bytes, signed", "signed.msgs_per_s", least(8e6), "ours.msgs_per_s"}}},
	{"latency -sign", []aimed{{"p50 signed, beyond without", "signed.p50_us - ours.p50_us", most(150), "signed.p50_us ours.p50_us"}}},
	// Above what one packet holds, by what is moved of messages that just fit one.
	{"throughput -size 1408", []aimed{{"1408 bytes, payload, of 1400 bytes", "ours.bytes_per_s / 2:ours.bytes_per_s", least(0.6), "ours.bytes_per_s"}}},
	{"throughput -size 2000", []aimed{{"2000 bytes, payload, of 1400 bytes", "ours.bytes_per_s / 2:ours.bytes_per_s", least(0.6), "ours.bytes_per_s"}}},
	// Many of anything: a share of what one of each does in the same run, and what raw keeps on as many topics.
	{"throughput -topics 16 -runs 3 -baseline raw", []aimed{
		{"16 topics in turn, of one", "ratio_one", least(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"}}},
	{"throughput -topics 1000 -runs 3 -baseline raw", []aimed{
		{"1,000 topics in turn, of one", "ratio_one", least(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"},
		{"1,000 topics in turn", "ours.msgs_per_s", least(10e6), "one.msgs_per_s"},
		{"publisher's memory, many groups", "ours.publisher_rss_bytes", most(64), ""},
		{"publisher's heap, many groups", "ours.publisher_heap_bytes", most(64), ""}}},
	{"throughput -topics 10000 -runs 3 -baseline raw", []aimed{
		{"10,000 topics in turn, of one", "ratio_one", least(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"}}},
	{"throughput -topics 1000 -order zipf -runs 3 -baseline raw", []aimed{
		{"1,000 topics by Zipf's law, of one", "ratio_one", least(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"}}},
	{"throughput -topics 1000 -order bursts -runs 3 -baseline raw", []aimed{
		{"1,000 topics in bursts of 10 to 100, of one", "ratio_one", least(0.7), "ours.msgs_per_s one.msgs_per_s ratio_raw-one"}}},
	{"throughput -topics 1000 -wildcard -runs 3", []aimed{
		{"1,000 topics by a pattern, of by name", "ratio_wildcard", least(0.9), "wildcard.msgs_per_s"}}},
	{"throughput -topics 1000 -goroutines 4 -runs 3", []aimed{
		{"1,000 topics from four goroutines, of one", "ratio_one", least(0.7), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -topics 1000 -subs 4 -split -runs 3", []aimed{
		{"1,000 topics to four subscribers by quarters, of one to four", "ratio_one", least(0.7), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -pubs 8 -runs 3", []aimed{{"8 publishers, of one", "ratio_one", least(0.6), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -pubs 32 -runs 3", []aimed{{"32 publishers, of one", "ratio_one", least(0.6), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -pubs 64 -runs 3", []aimed{{"64 publishers, of one", "ratio_one", least(0.6), "ours.msgs_per_s one.msgs_per_s"}}},
	{"throughput -extra-subscriptions 10000 -runs 3", []aimed{
		{"10,000 subscriptions, of ten", "ratio_one", least(0.9), "ours.msgs_per_s one.msgs_per_s"}}},
	{"latency -topics 1000 -runs 3", []aimed{{"1,000 topics, p50 by one", "ratio_p50_one", most(1.3), "ours.p50_us one.p50_us"}}},
	{"throughput -transport shm -receive messages", []aimed{
		{"shared memory, ranged over (Messages), of a handler", "ours.msgs_per_s / 3:ours.msgs_per_s", least(0.5), "ours.msgs_per_s"}}},
	{"throughput -transport shm -subs 4 -alone -baseline ring", []aimed{
		{"shared memory, each of four subscribers, of one", "ratio_alone", least(0.6), "alone.msgs_per_s ring.msgs_per_s"}}},
	{"throughput -transport shm -size 1024 -baseline ring", []aimed{
		{"shared memory, 1 KiB, payload", "ours.bytes_per_s", least(12e9), "ring.bytes_per_s"}}},
	{"latency -transport shm -wait spin -baseline ring", []aimed{
		{"shared memory, spinning, p50", "ours.p50_us", most(0.5), "ring.p50_us"}}},
	{"latency -transport shm -wait park", []aimed{{"shared memory, parking, p50", "ours.p50_us", most(10), ""}}},
	{"throughput -runs 1 -seconds 10", []aimed{
		{"longest GC pause in 10 s", "ours.gc_pause_max_us", most(1000), "ours.gc_cycles"}}},
}

// aims measures all that Fanfare aims at, and judges it.
func (b *Bench) aims(ctx context.Context, r *Result) error {
	r.Aims = []Aim{}
	for i, step := range steps {
		one := *b
		scenario, err := one.command(step.command)
		if err != nil {
			return err
		}
		one.Runs, one.Seconds = min(one.Runs, b.Runs), max(one.Seconds, b.Seconds)
		one.Progress = func(what string) { b.say("step %d of %d: %s", i+1, len(steps), what) }
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

// judge judges the latest step by an aim.
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
	var beside []string
	for _, name := range strings.Fields(a.beside) {
		beside = append(beside, r.besideText(name))
	}
	return Aim{
		Name: a.name, Command: "fanfare bench " + command, Seen: x, Want: a.want, Most: a.most, Unit: unit,
		Met: a.most && x <= a.want || !a.most && x >= a.want, Beside: strings.Join(beside, ", "),
	}
}

// units are those of metrics, by what their keys end with.
var units = []struct {
	suffix, unit string
	scale        float64
}{
	{"bytes_per_s", "B/s", 1}, {"_per_s", "/s", 1}, {"_us", "µs", 1}, {"_bytes", "MiB", 1.0 / mebibyte}, {"_percent", "% of a core", 1},
	{"_s_per_mmsg", "µs a message", 1}, {"gc_cycles", "cycles", 1},
}

// figure is a figure by its name, and its unit.
func (r *Result) figure(name string) (x float64, unit string) {
	part := r.Parts[len(r.Parts)-1]
	if number, rest, earlier := strings.Cut(name, ":"); earlier {
		part, name = r.Parts[number[0]-'1'], rest
	}
	who, metric, found := strings.Cut(name, ".")
	if !found {
		who, metric = "", name
	}
	x = part.Contest().Value(who, metric)
	for _, u := range units {
		if strings.HasSuffix(metric, u.suffix) {
			return x * u.scale, u.unit
		}
	}
	return x, ""
}

// besideText is a figure for people, with the contestant.
func (r *Result) besideText(name string) string {
	x, unit := r.figure(name)
	if key, is := strings.CutPrefix(name, "ratio_"); is {
		c := ratioOf(key)
		return fmt.Sprintf("%s %.2f of %s", c.of, x, c.by)
	}
	who, _, _ := strings.Cut(name, ".")
	return strings.Replace(who, ":", ": ", 1) + " " + withUnit(x, unit)
}

// withUnit writes a figure with its unit.
func withUnit(x float64, unit string) string {
	if unit != "" && unit != "/s" && unit != "B/s" {
		unit = " " + unit
	}
	return Short(x) + unit
}

// Missed are the aims that are.
func (r *Result) Missed() []Aim {
	return slices.DeleteFunc(slices.Clone(r.Aims), func(a Aim) bool { return a.Met })
}
