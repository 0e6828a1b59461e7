package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// Suite is the results of several scenarios.
type Suite struct {
	Head
	// Results are of type *Throughput, *Latency, *Sweep or *Idle, in the order
	// they were measured.
	Results []Result
	// Aims are what the scenario aims has judged; nil: it is another one.
	Aims []Aim
}

// Scenarios are the names of what can be measured.
func Scenarios() []string {
	return []string{"throughput", "latency", "sizes", "fanout", "loss", "burst", "idle", "all", "aims"}
}

// Run measures a scenario. When it fails or ctx ends, with its cause as the error, the
// result is what was measured before, and says that it is incomplete; it is nil if there
// is nothing.
func (b *Bench) Run(ctx context.Context, scenario string) (Result, error) {
	before := readConditions()
	result, err := b.measure(ctx, scenario)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if result == nil || err != nil && result.empty() {
		return nil, err
	}
	head := result.self()
	readConditions().judge(&head.Host, before)
	if err != nil {
		head.Incomplete = err.Error()
	}
	return result, err
}

func (b *Bench) measure(ctx context.Context, scenario string) (Result, error) {
	switch scenario {
	case "throughput":
		return b.Throughput(ctx)
	case "latency":
		return b.Latency(ctx)
	case "sizes":
		return b.SizeSweep(ctx)
	case "fanout":
		return b.FanoutSweep(ctx)
	case "loss":
		return b.LossSweep(ctx)
	case "burst":
		return b.Bursts(ctx)
	case "idle":
		return b.Idle(ctx)
	case "all":
		return b.All(ctx)
	case "aims":
		return b.Aims(ctx)
	}
	return nil, fmt.Errorf("no scenario is called %q", scenario)
}

// Shares of the settings' time that scenarios of the suite take: sweeps have
// many points.
const (
	sweepRuns    = 3
	sweepSeconds = 0.5
)

// All measures every scenario.
func (b *Bench) All(ctx context.Context) (*Suite, error) {
	suite := &Suite{Head: b.head("all")}
	sweep := b.Settings
	sweep.Runs = min(b.Runs, sweepRuns)
	sweep.Seconds = min(b.Seconds, sweepSeconds)
	sweep.Publishers = b.Publishers[:1]
	single := b.Settings
	single.Publishers = b.Publishers[:1]
	// One packet a message tells nothing new at each of many points, and cannot
	// hold the rate of latency on most machines.
	single.Baselines = slices.DeleteFunc(slices.Clone(b.Baselines), func(name string) bool { return name == contenders.Naive })
	sweep.Baselines = single.Baselines
	lossy := single
	if lossy.Loss == 0 {
		lossy.Loss = 0.01
	}
	large := b.Settings
	large.Size = 1024
	topics := sweep
	topics.Topics, topics.Publishers = 1000, []worker.Publisher{worker.PublisherShared}
	steps := []struct {
		scenario string
		settings Settings
	}{
		{"throughput", b.Settings}, {"throughput", large}, {"throughput", topics}, {"sizes", sweep}, {"fanout", sweep}, {"loss", sweep},
		{"latency", single}, {"latency", lossy}, {"burst", single}, {"idle", single},
	}
	for i, step := range steps {
		one := Bench{Settings: step.settings, Exe: b.Exe, Contenders: b.Contenders}
		one.Baselines = one.fitting(step.scenario)
		one.Progress = func(what string) { b.say("step %d of %d: %s", i+1, len(steps), what) }
		if _, err := suite.add(ctx, &one, step.scenario); err != nil {
			return suite, err
		}
	}
	return suite, nil
}

// add measures a scenario, and adds what there is of it to the suite.
func (s *Suite) add(ctx context.Context, b *Bench, scenario string) (Result, error) {
	result, err := b.Run(ctx, scenario)
	if result != nil {
		s.Results = append(s.Results, result)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", scenario, err)
	}
	return result, nil
}

// fitting are the baselines that suit these settings in a scenario.
func (b *Bench) fitting(scenario string) (names []string) {
	for _, name := range b.Baselines {
		if b.CheckBaseline(scenario, name, b.Contenders) == nil {
			names = append(names, name)
		}
	}
	return names
}

// MarshalJSON writes the results in a list.
func (s *Suite) MarshalJSON() ([]byte, error) {
	m := s.Head.fields()
	m["results"] = s.Results
	if s.Aims != nil {
		m["aims"] = s.Aims
	}
	return marshal(m)
}

func (s *Suite) empty() bool { return len(s.Results) == 0 }

// Results are the single results of a result.
func Results(result Result) []Result {
	if s, ok := result.(*Suite); ok {
		return s.Results
	}
	return []Result{result}
}

// Lost is how many messages Fanfare's subscribers have lost for good in all of a result.
func Lost(result Result) (n uint64) {
	for _, r := range Results(result) {
		switch r := r.(type) {
		case *Throughput:
			n += r.lost()
		case *Latency:
			for key, p := range r.By {
				if isFanfare(key) {
					n += p.Lost
				}
			}
		case *Sweep:
			for _, p := range r.Points {
				n += p.lost()
			}
		}
	}
	return n
}

func (t *Throughput) lost() (n uint64) {
	for key, r := range t.Rates {
		if isFanfare(key) {
			n += r.Lost
		}
	}
	return n
}

// isFanfare reports whether a contestant repairs what is lost.
func isFanfare(key string) bool { return IsOurs(key) || key == contenders.UDP }

func pointName(scenario string, s *Settings) string {
	switch scenario {
	case "sizes":
		return fmt.Sprintf("%d bytes at MTU %d", s.Size, s.MTU)
	case "fanout":
		if s.Together {
			return fmt.Sprintf("%d in one process", s.Subs)
		}
		return fmt.Sprintf("%d processes", s.Subs)
	}
	return fmt.Sprintf("loss %g %%", 100*s.Loss)
}
