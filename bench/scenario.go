package bench

import (
	"context"
	"fmt"
)

// Scenarios returns the names of all scenarios.
func Scenarios() []string {
	return []string{"throughput", "latency", "loss", "idle", "request", "aims"}
}

// Run measures a scenario. If it fails or ctx ends, with the cause as the error, the result
// contains what was measured before and is marked incomplete; it is nil if that is nothing.
func (b *Bench) Run(ctx context.Context, scenario string) (*Result, error) {
	before := readSteal()
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
	r.Host.Steal = readSteal().share(before)
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
	return fmt.Errorf("there is no scenario %q", r.Scenario)
}

// losses are the shares of lost packets in scenario loss.
var losses = []float64{0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3}

// sweep measures throughput at each loss. Baselines repair nothing, and are not measured.
func (b *Bench) sweep(ctx context.Context, r *Result, losses []float64) error {
	for i, loss := range losses {
		at := *b
		at.Loss, at.Baselines = loss, nil
		at.Progress = func(what string) { b.progress("point %d of %d: %s", i+1, len(losses), what) }
		if err := at.contest(ctx, r, lossName(loss), full); err != nil {
			return err
		}
	}
	return nil
}

func lossName(share float64) string { return fmt.Sprintf("loss %g %%", 100*share) }
