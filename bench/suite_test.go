package bench

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// A measurement that fails or is cancelled returns the results so far, marked incomplete.
func TestIncomplete(t *testing.T) {
	testenv.Slow(t)
	b := newBench(t, "mem")
	b.Seconds, b.Runs = 0.05, 2

	b.Baselines = []string{"swaps"}
	result, err := b.Run(t.Context(), "throughput")
	if err == nil || !strings.Contains(err.Error(), "instead of") {
		t.Fatalf(`the run fails with %v, want an error with "instead of"`, err)
	}
	m := decoded(t, result)
	positive(t, m, "ours", "msgs_per_s", "median")
	if m["incomplete"] != err.Error() || m["ours"].(map[string]any)["runs"] != 1.0 || m["swaps"] != nil {
		t.Errorf("incomplete: %v after %v; %v and %v", m["incomplete"], err, m["ours"], m["swaps"])
	}
	var text strings.Builder
	if err := Write(&text, result, false); err != nil || !strings.Contains(text.String(), "incomplete: swaps") {
		t.Errorf(`report with error %v lacks "incomplete: swaps": %s`, err, text.String())
	}
	// A ratio uses the same number of runs of both.
	got := paired(map[string][]*outcome{"ours": {{}, {}, {}}, "raw": {{}, {}}})
	if len(got["ours"]) != 2 || len(got["raw"]) != 2 {
		t.Errorf("%d and %d runs paired, want 2 and 2", len(got["ours"]), len(got["raw"]))
	}
	// A target applies to complete results only.
	if v := (&Result{Scenario: "throughput", Settings: Settings{Target: 1, Baselines: []string{"x"}}, Incomplete: "x"}).Verdicts(); v != nil {
		t.Errorf("verdicts of an incomplete result: %v, want none", v)
	}

	// If nothing was measured there is no result.
	gone, cancel := context.WithCancelCause(t.Context())
	off := errors.New("cancelled")
	cancel(off)
	for _, scenario := range Scenarios() {
		if result, err := b.Run(gone, scenario); result != nil || !errors.Is(err, off) {
			t.Errorf("%s: result %v, error %v, want none and %v", scenario, result, err, off)
		}
	}

	for scenario, until := range map[string]string{
		"throughput": "run 2", "latency": "run 2", "idle": "run 2", "loss": "point 2 of 8: loss 0.1 %: run 2",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		b.Baselines = nil
		b.Progress = func(what string) {
			if strings.Contains(what, until) {
				cancel(off)
			}
		}
		result, err := b.Run(ctx, scenario)
		if result == nil || !errors.Is(err, off) {
			t.Errorf("%s, cancelled at %s: result %v, error %v, want a result and %v", scenario, until, result, err, off)
			continue
		}
		m := decoded(t, result)
		if m["incomplete"] != "cancelled" {
			t.Errorf(`%s: incomplete is %v, want "cancelled"`, scenario, m["incomplete"])
		}
		if scenario == "loss" && (len(result.Points) != 2 || result.Points[0].Value("ours", "runs") != 2 || result.Points[1].Value("ours", "runs") != 1) {
			t.Errorf("loss: %d points, want 2 with 2 runs and 1 run", len(result.Points))
		}
		if err := Write(io.Discard, result, false); err != nil {
			t.Errorf("%s: the report cannot be written: %v", scenario, err)
		}
	}
}

// The result reports a receiver of raw that was too slow.
func TestWarnings(t *testing.T) {
	at := func(metric string, lost float64) Point {
		return Point{Rows: []Row{newRow("ours", metric, asSpread, []float64{1}), newRow("raw", metric, asSpread, []float64{1}),
			newRow("raw", "lost_share", asMean, []float64{lost})}}
	}
	one := func(p Point) *Result { return &Result{Scenario: "throughput", Points: []Point{p}} }
	good, bad := at("msgs_per_s", 0.01), at("msgs_per_s", 0.2)
	if one(good).Warnings() != nil || decoded(t, one(good))["doubt"] != nil {
		t.Error("a good result has a warning")
	}
	if bad.warning() == "" || decoded(t, one(bad))["doubt"] != bad.warning() {
		t.Errorf(`warning %q, want one, the same as "doubt" in the result`, bad.warning())
	}
	if late := at("p50_us", 0.2); !strings.Contains(late.warning(), "do not count as late") || decoded(t, one(late))["doubt"] != late.warning() {
		t.Errorf(`latency: warning %q, want one about late messages, the same as "doubt" in the result`, late.warning())
	}
}

func TestSweep(t *testing.T) {
	b := newBench(t, "mem")
	b.Seconds = 0.05
	sweep := &Result{Scenario: "loss"}
	if err := b.sweep(t.Context(), sweep, []float64{0, 0.05}); err != nil {
		t.Fatal(err)
	}
	points := decoded(t, sweep)["points"].([]any)
	if len(points) != 2 {
		t.Fatalf("%d points, want 2", len(points))
	}
	positive(t, points[1].(map[string]any), "ratio_lossless")
	positive(t, points[1].(map[string]any), "loss")
	if sweep.Points[1].Details["ours"].Subscriber["repaired"] == 0 {
		t.Errorf("nothing was repaired at 5 %% loss: %v", sweep.Points[1].Details["ours"].Subscriber)
	}
}
