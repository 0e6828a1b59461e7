package bench

import (
	"context"
	"fmt"
)

// Scenarios are the names of what can be measured.
func Scenarios() []string {
	return []string{"throughput", "latency", "loss", "idle", "request", "aims"}
}

// Run measures a scenario. When it fails or ctx ends, with its cause as the error, the result is what was measured
// before, and says that it is incomplete; it is nil if there is nothing.
func (b *Bench) Run(ctx context.Context, scenario string) (*Result, error) {
	before := readStolen()
	b.handovers = handover()
	r := &Result{Scenario: scenario, Host: thisHost(), Settings: b.Settings}
	err := b.measure(ctx, r)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil && len(r.Points)+len(r.Parts) == 0 {
		return nil, err
	}
	r.Host.Handover = spreadOf(append(b.handovers, handover()...))
	r.Host.Steal = readStolen().share(before)
	if err != nil {
		r.Incomplete = err.Error()
	}
	return r, err
}

func (b *Bench) measure(ctx context.Context, r *Result) error {
	switch k, ok := kinds[r.Scenario]; {
	case r.isSweep():
		return b.sweep(ctx, r, losses)
	case ok:
		return b.contest(ctx, r, r.Scenario, k)
	case r.isSuite():
		return b.aims(ctx, r)
	}
	return fmt.Errorf("no scenario is called %q", r.Scenario)
}

// losses are the shares of lost packets that the scenario loss goes through.
var losses = []float64{0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3}

// sweep measures throughput at each loss. Baselines repair nothing, and have none of it.
func (b *Bench) sweep(ctx context.Context, r *Result, losses []float64) error {
	for i, loss := range losses {
		at := *b
		at.Loss, at.Baselines = loss, nil
		at.Progress = func(what string) { b.say("point %d of %d: %s", i+1, len(losses), what) }
		if err := at.contest(ctx, r, lossName(loss), full); err != nil {
			return err
		}
	}
	return nil
}

func lossName(share float64) string { return fmt.Sprintf("loss %g %%", 100*share) }
