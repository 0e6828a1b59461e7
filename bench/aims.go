package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
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
}

// aimsStep is a scenario and what it is judged by. Those before it are known.
type aimsStep struct {
	scenario string
	settings func(*Settings)
	judge    func(j *judge, p *Point)
}

// judge collects aims, and what later steps compare with.
type judge struct {
	aims    []Aim
	command string  // of the step
	ours    float64 // messages a second
	ownCode float64 // of the publisher, s for a million messages
	rawCode float64
}

func (j *judge) least(name string, seen, want float64, unit, beside string) {
	j.aims = append(j.aims, Aim{Name: name, Command: j.command, Seen: seen, Want: want, Unit: unit, Met: seen >= want, Beside: beside})
}

func (j *judge) most(name string, seen, want float64, unit, beside string) {
	j.aims = append(j.aims, Aim{Name: name, Command: j.command, Seen: seen, Want: want, Most: true, Unit: unit, Met: seen <= want, Beside: beside})
}

const (
	mebibyte = 1 << 20
	percent  = "% of a core"
	// ofRaw is 80 M messages/s where the raw loop over UDP moves 92 M.
	ofRaw = 80.0 / 92
	perS  = "/s"
)

// aims measures all that Fanfare aims at (docs/performance.md), over UDP, shared memory and in
// process, and judges it.
func (b *Bench) aims(ctx context.Context, r *Result) error {
	steps := b.aimsSteps()
	j := judge{aims: []Aim{}}
	r.Aims = j.aims
	for i, step := range steps {
		one := *b
		one.MTU, one.Size, one.Subs = Defaults("udp").MTU, 64, 1
		one.Baselines = []string{contenders.Raw}
		step.settings(&one.Settings)
		one.Progress = func(what string) { b.say("step %d of %d: %s", i+1, len(steps), what) }
		if err := r.add(ctx, &one, step.scenario); err != nil {
			return err
		}
		j.command = one.command(step.scenario)
		step.judge(&j, r.Parts[len(r.Parts)-1].Contest())
		r.Aims = j.aims
	}
	return nil
}

func (b *Bench) aimsSteps() []aimsStep {
	loss := func(share, want float64) aimsStep {
		return aimsStep{"throughput", func(s *Settings) { s.Loss, s.Baselines = share, nil }, func(j *judge, p *Point) {
			left := p.Ratio("lossless").Value
			j.least(fmt.Sprintf("%g %% loss, of lossless", 100*share), left, want, "", Short(p.Rate(keyOurs))+perS)
		}}
	}
	steps := []aimsStep{
		{"throughput", func(s *Settings) {
			s.Baselines = []string{contenders.Raw, contenders.Naive}
			s.Batch = aimedBatch
		}, (*judge).full},
		{"throughput", func(s *Settings) { s.Size = 1024 }, func(j *judge, p *Point) {
			j.least("1 KiB, payload, of raw", p.Ratio("raw").Value, 0.95, "", Short(p.Value(keyOurs, "bytes_per_s"))+"B/s, raw "+Short(p.Value("raw", "bytes_per_s"))+"B/s")
		}},
		{"throughput", func(s *Settings) { s.MTU = MTU64K }, func(j *judge, p *Point) {
			j.least("64 KiB datagrams, of the figure at 1472", ratio(p.Rate(keyOurs), j.ours), 0.9, "", "")
		}},
		{"throughput", func(s *Settings) { s.Receive, s.Baselines = worker.ReceiveMessages, nil }, func(j *judge, p *Point) {
			j.least("64 bytes ranged over (Messages), of a handler", ratio(p.Rate(keyOurs), j.ours), 0.5, "", Short(p.Rate(keyOurs))+perS)
		}},
		{"throughput", func(s *Settings) { s.Subs = 4 }, func(j *judge, p *Point) {
			j.least("four subscribers, each, of raw", p.Ratio("raw").Value, 0.65, "", Short(p.Rate(keyOurs))+perS+", raw "+p.rawText())
		}},
		{"throughput", func(s *Settings) { s.Subs = 16 }, func(j *judge, p *Point) {
			j.most("the publisher's own code, 16 subscribers for one", ratio(p.Value(keyOurs, "publisher_user_s_per_mmsg"), j.ownCode), 1.1, "",
				fmt.Sprintf("raw %.2f", ratio(p.Value("raw", "publisher_user_s_per_mmsg"), j.rawCode)))
		}},
		{"throughput", func(s *Settings) {
			s.Metrics, s.Top, s.Baselines = "localhost:0", true, nil
		}, func(j *judge, p *Point) {
			j.least("with metrics, of without", p.Ratio(keyMetrics).Value, 0.98, "", "")
			j.least("with metrics and top, of without", p.Ratio(keyTop).Value, 0.98, "", "")
		}},
		{"latency", func(s *Settings) { s.Wait = worker.WaitPark }, func(j *judge, p *Point) {
			j.most("parking, p50 by raw", p.Ratio("p50_raw").Value, 1.3, "", fmt.Sprintf("raw %.3g µs", p.Value("raw", "p50_us")))
			j.most("parking, p99 by raw", p.Ratio("p99_raw").Value, 2, "", fmt.Sprintf("raw %.3g µs", p.Value("raw", "p99_us")))
		}},
		{"latency", func(s *Settings) { s.Wait = worker.WaitSpin }, func(j *judge, p *Point) {
			j.most("spinning, p50 by raw", p.Ratio("p50_raw").Value, 1.5, "", fmt.Sprintf("raw %.3g µs", p.Value("raw", "p50_us")))
		}},
		{"latency", func(s *Settings) { s.Loss = 0.01 }, func(j *judge, p *Point) {
			j.most("latency at 1 % loss, p99", p.Value(keyOurs, "p99_us"), 300, "µs", fmt.Sprintf("lossless %.3g µs, raw %.3g", p.Value("lossless", "p99_us"), p.Value("raw", "p99_us")))
			j.most("latency at 1 % loss, p99.9 by lossless", p.Ratio("p999_lossless").Value, 3, "", "")
		}},
		loss(0.01, 0.8), loss(0.1, 0.4), loss(0.3, 0.01),
		{"throughput", func(s *Settings) {
			s.Transport, s.URL, s.MTU, s.Receive, s.Baselines = "mem", "", Defaults("mem").MTU, worker.ReceiveBatch, []string{contenders.Channel, contenders.Raw}
			s.Batch = aimedBatch
		}, func(j *judge, p *Point) {
			j.least("in process, of raw over UDP", p.Ratio("raw").Value, ofRaw, "", Short(p.Rate(keyOurs))+perS+", raw "+p.rawText())
			j.least("in process in batches, of raw over UDP", p.Ratio(keyBatches+"_raw").Value, ofRaw, "", Short(p.Rate(keyBatches))+perS)
			j.least("in process, of a channel", p.Ratio("channel").Value, 3, "", "channel "+Short(p.Rate("channel"))+perS)
		}},
		{"idle", func(s *Settings) { s.Baselines = nil }, func(j *judge, p *Point) {
			j.most("idle publisher", p.Value("", "publisher_cpu_percent"), 0.5, percent, "")
			j.most("idle subscriber", p.Value("", "subscriber_cpu_percent"), 0.5, percent, "")
		}},
	}
	return append(slices.Concat(steps, protectedSteps(), largeSteps(), manySteps(), stoppedSteps(), sharedSteps()), aimsStep{
		"throughput", func(s *Settings) { s.Runs, s.Seconds, s.Baselines = 1, 10, nil }, func(j *judge, p *Point) {
			j.most("longest GC pause in 10 s", p.Value(keyOurs, "gc_pause_max_us"), 1000, "µs", fmt.Sprintf("%.0f cycles", p.Value(keyOurs, "gc_cycles")))
		},
	})
}

// aimedBatch is how many messages a call a publisher in batches has: as many as a packet of 1472 bytes holds, or a few less.
const aimedBatch = 16

// full judges full load at 64 bytes, on which other aims are based.
func (j *judge) full(p *Point) {
	j.ours, j.ownCode, j.rawCode = p.Rate(keyOurs), p.Value(keyOurs, "publisher_user_s_per_mmsg"), p.Value("raw", "publisher_user_s_per_mmsg")
	j.least("64 bytes, of raw", p.Ratio("raw").Value, 0.7, "", "raw "+p.rawText())
	j.least("64 bytes in batches, of raw", p.Ratio(keyBatches+"_raw").Value, 0.7, "", Short(p.Rate(keyBatches))+perS)
	j.least("64 bytes", j.ours, 55e6, perS, "raw "+p.rawText())
	j.least("concurrent publisher, of raw", p.Ratio("raw").Value, 0.3, "", "")
	j.least("64 bytes, of naive", p.Ratio("naive").Value, 200, "", fmt.Sprintf("raw %.0f", ratio(p.Rate("raw"), p.Rate("naive"))))
	j.most("allocations a message", p.Value(keyOurs, "allocs_per_msg"), 0, "", "")
	j.most("publisher's memory", p.Value(keyOurs, "publisher_rss_bytes")/mebibyte, 64, "MiB", "")
	j.most("subscriber's memory", p.Value(keyOurs, "subscriber_rss_bytes")/mebibyte, 64, "MiB", "")
}

func ratio(a, b float64) float64 { return a / max(b, 1e-12) }

// rawText is raw's rate, and what it lost.
func (p *Point) rawText() string {
	text := Short(p.Rate("raw")) + perS
	if lost := p.Value("raw", "lost_share"); lost >= 0.005 {
		text += fmt.Sprintf(", %.0f %% lost", 100*lost)
	}
	return text
}

// command is what measures this alone.
func (s *Settings) command(scenario string) string {
	text := "fanfare bench " + scenario
	add := func(differs bool, format string, val any) {
		if differs {
			text += " " + fmt.Sprintf(format, val)
		}
	}
	d := Defaults(s.Transport)
	add(s.Transport != "udp", "-transport %s", s.Transport)
	add(s.MTU != d.MTU, "-mtu %d", s.MTU)
	add(s.Size != d.Size, "-size %d", s.Size)
	add(s.Subs != d.Subs, "-subs %d", s.Subs)
	add(s.Loss != 0, "-loss %g", s.Loss)
	add(s.Receive != d.Receive, "-receive %s", s.Receive)
	add(s.Wait != d.Wait, "-wait %s", s.Wait)
	add(s.Batch != 0, "-batch %d", s.Batch)
	add(s.Metrics != "", "-metrics %s", s.Metrics)
	if s.Wildcard {
		text += " -wildcard"
	}
	if s.Top {
		text += " -top"
	}
	if s.Alone {
		text += " -alone"
	}
	add(s.Rate != 0 && s.Rate != d.Rate, "-rate %g", s.Rate)
	add(s.Stopped != 0, "-stopped %d", s.Stopped)
	if s.Sealed {
		text += " -keys"
	}
	if s.Signed {
		text += " -sign"
	}
	add(s.Seconds != d.Seconds, "-seconds %g", s.Seconds)
	for _, flag := range s.Shape.flags() {
		text += " " + flag
	}
	return text
}

// Wanted is the figure that is aimed at.
func (a *Aim) Wanted() string {
	if a.Most {
		return "at most " + a.figure(a.Want)
	}
	return "at least " + a.figure(a.Want)
}

// Figure is the figure that was seen.
func (a *Aim) Figure() string { return a.figure(a.Seen) }

func (a *Aim) figure(x float64) string {
	switch a.Unit {
	case "":
		return Short(x)
	case perS, "B/s":
		return Short(x) + a.Unit
	}
	return Short(x) + " " + a.Unit
}

// Verdict is PASS or MISSED.
func (a *Aim) Verdict() string {
	if a.Met {
		return "PASS"
	}
	return "MISSED"
}

// Missed are the aims that are.
func (r *Result) Missed() []Aim {
	return slices.DeleteFunc(slices.Clone(r.Aims), func(a Aim) bool { return a.Met })
}
