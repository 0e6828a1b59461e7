package bench

import (
	"context"
	"fmt"
	"io"
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
	judge    func(j *judge, r Result)
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
	perS     = "/s"
)

// Aims measures all that Fanfare aims at (docs/performance.md), over UDP and in
// process, and judges it.
func (b *Bench) Aims(ctx context.Context) (*Suite, error) {
	suite := &Suite{Head: b.head("aims"), Aims: []Aim{}}
	steps := b.aimsSteps()
	var j judge
	for i, step := range steps {
		one := *b
		one.MTU, one.Size, one.Subs = Defaults("udp").MTU, 64, 1
		one.Publishers, one.Baselines = b.Publishers[:1], []string{contenders.Raw}
		step.settings(&one.Settings)
		one.Progress = func(what string) { b.say("step %d of %d: %s", i+1, len(steps), what) }
		result, err := suite.add(ctx, &one, step.scenario)
		if err != nil {
			return suite, err
		}
		j.command = one.command(step.scenario)
		step.judge(&j, result)
		suite.Aims = j.aims
	}
	return suite, nil
}

func (b *Bench) aimsSteps() []aimsStep {
	loss := func(share, want float64) aimsStep {
		return aimsStep{"throughput", func(s *Settings) { s.Loss, s.Baselines = share, nil }, func(j *judge, r Result) {
			t := r.(*Throughput)
			left := t.Ratios["lossless"].Median
			j.least(fmt.Sprintf("%g %% loss, of lossless", 100*share), left, want, "", Short(t.Rates[keyOurs].MsgsPerS.Median)+perS)
		}}
	}
	steps := []aimsStep{
		{"throughput", func(s *Settings) {
			s.Publishers, s.Baselines = []worker.Publisher{worker.PublisherExclusive, worker.PublisherShared}, []string{contenders.Raw, contenders.Naive}
		}, (*judge).full},
		{"throughput", func(s *Settings) { s.Size = 1024 }, func(j *judge, r Result) {
			t := r.(*Throughput)
			j.least("1 KiB, payload", t.Rates[keyOurs].BytesPerS.Median, 3.5e9, "B/s", "raw "+Short(t.Rates["raw"].BytesPerS.Median)+"B/s")
		}},
		{"throughput", func(s *Settings) { s.MTU = MTU64K }, func(j *judge, r Result) {
			j.least("64 KiB datagrams, of the figure at 1472", ratio(r.(*Throughput).Rates[keyOurs].MsgsPerS.Median, j.ours), 0.9, "", "")
		}},
		{"throughput", func(s *Settings) { s.Subs = 4 }, func(j *judge, r Result) {
			t := r.(*Throughput)
			j.least("four subscribers, each", t.Rates[keyOurs].MsgsPerS.Median, 20e6, perS, "raw "+t.rawText())
		}},
		{"throughput", func(s *Settings) { s.Subs = 16 }, func(j *judge, r Result) {
			t := r.(*Throughput)
			j.most("the publisher's own code, 16 subscribers for one", ratio(t.Rates[keyOurs].PublisherUser.Median, j.ownCode), 1.1, "",
				fmt.Sprintf("raw %.2f", ratio(t.Rates["raw"].PublisherUser.Median, j.rawCode)))
		}},
		{"throughput", func(s *Settings) { s.Metrics, s.Baselines = "localhost:0", nil }, func(j *judge, r Result) {
			j.least("with metrics, of without", r.(*Throughput).Ratios["metrics"].Median, 0.98, "", "")
		}},
		{"latency", func(s *Settings) { s.Wait = worker.WaitPark }, func(j *judge, r Result) {
			l := r.(*Latency)
			j.most("parking, p50 by raw", l.Ratios["p50_raw"].Median, 1.3, "", fmt.Sprintf("raw %.3g µs", l.By["raw"].P50))
			j.most("parking, p99 by raw", l.Ratios["p99_raw"].Median, 2, "", fmt.Sprintf("raw %.3g µs", l.By["raw"].P99))
		}},
		{"latency", func(s *Settings) { s.Wait = worker.WaitSpin }, func(j *judge, r Result) {
			l := r.(*Latency)
			j.most("spinning, p50 by raw", l.Ratios["p50_raw"].Median, 1.5, "", fmt.Sprintf("raw %.3g µs", l.By["raw"].P50))
		}},
		{"latency", func(s *Settings) { s.Loss = 0.01 }, func(j *judge, r Result) {
			l := r.(*Latency)
			j.most("latency at 1 % loss, p99", l.By[keyOurs].P99, 300, "µs", fmt.Sprintf("lossless %.3g µs, raw %.3g", l.By["lossless"].P99, l.By["raw"].P99))
			j.most("latency at 1 % loss, p99.9 by lossless", l.Ratios["p999_lossless"].Median, 3, "", "")
		}},
		loss(0.01, 0.8), loss(0.1, 0.4), loss(0.3, 0.01),
		{"throughput", func(s *Settings) {
			s.Transport, s.URL, s.MTU, s.Receive, s.Baselines = "mem", "", Defaults("mem").MTU, worker.ReceiveBatch, []string{contenders.Channel}
		}, func(j *judge, r Result) {
			t := r.(*Throughput)
			j.least("in process", t.Rates[keyOurs].MsgsPerS.Median, 80e6, perS, "channel "+Short(t.Rates["channel"].MsgsPerS.Median)+perS)
			j.least("in process, of a channel", t.Ratios["channel"].Median, 2.5, "", "")
		}},
		{"idle", func(s *Settings) { s.Baselines = nil }, func(j *judge, r Result) {
			d := r.(*Idle)
			j.most("idle publisher", d.PublisherCPU.Median, 0.5, percent, "")
			j.most("idle subscriber", d.SubscriberCPU.Median, 0.5, percent, "")
		}},
	}
	return append(append(steps, manySteps()...), aimsStep{
		"throughput", func(s *Settings) { s.Runs, s.Seconds, s.Baselines = 1, 10, nil }, func(j *judge, r Result) {
			o := r.(*Throughput).Rates[keyOurs]
			j.most("longest GC pause in 10 s", o.GCPauseMaxUs, 1000, "µs", fmt.Sprintf("%d cycles", o.GCCycles))
		},
	})
}

// full judges full load at 64 bytes, on which other aims are based.
func (j *judge) full(r Result) {
	t := r.(*Throughput)
	o, shared, raw := t.Rates[keyOurs], string(worker.PublisherShared), t.Rates["raw"]
	j.ours, j.ownCode, j.rawCode = o.MsgsPerS.Median, o.PublisherUser.Median, raw.PublisherUser.Median
	j.least("64 bytes, of raw", t.Ratios["raw"].Median, 0.6, "", "raw "+t.rawText())
	j.least("64 bytes", j.ours, 55e6, perS, "raw "+t.rawText())
	j.least("concurrent publisher, of raw", t.Ratios[shared+"_raw"].Median, 0.3, "", "")
	j.least("64 bytes, of naive", t.Ratios["naive"].Median, 200, "", fmt.Sprintf("raw %.0f", ratio(raw.MsgsPerS.Median, t.Rates["naive"].MsgsPerS.Median)))
	j.most("allocations a message", o.AllocsPerMsg, 0, "", "")
	j.most("publisher's memory", float64(o.PublisherRSS)/mebibyte, 64, "MiB", "")
	j.most("subscriber's memory", float64(o.SubscriberRSS)/mebibyte, 64, "MiB", "")
}

func ratio(a, b float64) float64 { return a / max(b, 1e-12) }

// rawText is raw's rate, and what it lost.
func (t *Throughput) rawText() string {
	r := t.Rates["raw"]
	text := Short(r.MsgsPerS.Median) + perS
	if r.LostShare >= 0.005 {
		text += fmt.Sprintf(", %.0f %% lost", 100*r.LostShare)
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
	add(s.Metrics != "", "-metrics %s", s.Metrics)
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
func (s *Suite) Missed() []Aim {
	return slices.DeleteFunc(slices.Clone(s.Aims), func(a Aim) bool { return a.Met })
}

func (s *Suite) aimsText(w io.Writer) {
	fmt.Fprint(w, "\taim\tseen\tbeside\t\n")
	for i := range s.Aims {
		a := &s.Aims[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", a.Name, a.Wanted(), a.Figure(), a.Beside, a.Verdict())
	}
}
