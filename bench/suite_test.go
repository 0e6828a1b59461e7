package bench

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
)

// A measurement that fails or is called off gives what it has, and says that this is not
// all.
func TestIncomplete(t *testing.T) {
	b := newBench(t, "mem")
	b.Seconds, b.Publishers, b.Runs = 0.05, b.Publishers[:1], 2

	b.Baselines = []string{"swaps"}
	result, err := b.Run(t.Context(), "throughput")
	if err == nil || !strings.Contains(err.Error(), "in place of") {
		t.Fatalf("%v", err)
	}
	m := decoded(t, result)
	positive(t, m, "ours", "msgs_per_s", "median")
	if m["incomplete"] != err.Error() || m["ours"].(map[string]any)["runs"] != 1.0 || m["swaps"] != nil {
		t.Errorf("incomplete: %v after %v; %v and %v", m["incomplete"], err, m["ours"], m["swaps"])
	}
	var text strings.Builder
	if err := WriteText(&text, result); err != nil || !strings.Contains(text.String(), "incomplete: swaps") {
		t.Errorf("%v: %s", err, text.String())
	}
	// A ratio is one of as many runs of both.
	got := paired(map[string][]*outcome{"ours": {{}, {}, {}}, "raw": {{}, {}}})
	if len(got["ours"]) != 2 || len(got["raw"]) != 2 {
		t.Errorf("%d and %d runs are paired", len(got["ours"]), len(got["raw"]))
	}
	// A target is for all runs.
	if v := (&Throughput{Head: Head{Settings: Settings{Target: 1, Baselines: []string{"x"}}, Incomplete: "x"}}).Verdicts(); v != nil {
		t.Errorf("verdicts of a part: %v", v)
	}

	// Nothing was measured: there is no result.
	gone, cancel := context.WithCancelCause(t.Context())
	off := errors.New("called off")
	cancel(off)
	for _, scenario := range Scenarios() {
		if result, err := b.Run(gone, scenario); result != nil || !errors.Is(err, off) {
			t.Errorf("%s: %v, %v", scenario, result, err)
		}
	}

	for scenario, until := range map[string]string{
		"throughput": "run 2", "latency": "run 2", "burst": "run 2", "idle": "run 2", "loss": "point 2 of 8: loss 0.1 %: run 2", "all": "step 2 of 10",
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
			t.Errorf("%s, called off at %s: %v, %v", scenario, until, result, err)
			continue
		}
		m := decoded(t, result)
		if m["incomplete"] != "called off" {
			t.Errorf("%s: incomplete is %v", scenario, m["incomplete"])
		}
		switch r := result.(type) {
		case *Sweep:
			if len(r.Points) != 2 || r.Points[0].Rates["ours"].Runs != 2 || r.Points[1].Rates["ours"].Runs != 1 {
				t.Errorf("loss: %d points", len(r.Points))
			}
		case *Suite:
			if len(r.Results) != 1 || decoded(t, r.Results[0])["incomplete"] != nil {
				t.Errorf("all: %d results", len(r.Results))
			}
		}
		if err := WriteText(io.Discard, result); err != nil {
			t.Errorf("%s: %v", scenario, err)
		}
	}
}

// Where raw's receiver did not keep up the result says so, of a sweep as of one point.
func TestDoubt(t *testing.T) {
	good := &Throughput{Head: Head{Settings: Settings{Size: 64, MTU: 1472}}, Rates: map[string]*Rates{"ours": {}, "raw": {LostShare: 0.01}}}
	bad := &Throughput{Head: Head{Settings: Settings{Size: 128, MTU: 1472}}, Rates: map[string]*Rates{"ours": {}, "raw": {LostShare: 0.2}}}
	sweep := func(all ...*Throughput) *Sweep {
		s := &Sweep{Head: Head{Scenario: "sizes"}}
		for _, p := range all {
			s.Points = append(s.Points, SweepPoint{Throughput: p})
		}
		return s
	}
	if good.Doubt() != "" || sweep(good).Doubt() != "" || decoded(t, good)["doubt"] != nil {
		t.Error("what is good is in doubt")
	}
	if bad.Doubt() == "" || decoded(t, bad)["doubt"] != bad.Doubt() || !strings.HasSuffix(sweep(good, bad).Doubt(), "at: 128 bytes at MTU 1472; ratios to it there say little") {
		t.Errorf("%q; %q", bad.Doubt(), sweep(good, bad).Doubt())
	}
	late := &Latency{By: map[string]*Percentiles{"ours": {}, "raw": {LostShare: 0.2}}}
	if late.Doubt() == "" || decoded(t, late)["doubt"] != late.Doubt() {
		t.Errorf("latency: %q", late.Doubt())
	}
}

// The scenario sizes goes through three MTUs of the transport, or those asked for.
func TestSizeSweep(t *testing.T) {
	off := errors.New("called off")
	for transport, want := range map[string]string{"udp": "MTU 1472 MTU 8192 MTU 65507", "mem": "MTU 1472 MTU 8192 MTU 65507", "sim": "MTU 1024 MTU 2048 MTU 4096", "roce": "MTU 1024 MTU 2048 MTU 4096"} {
		b := newBench(t, transport)
		for _, mtu := range b.DefaultMTUs() {
			b.MTU = mtu
			if err := b.Settings.Check("sizes", b.Contenders); err != nil || !strings.Contains(want, strconv.Itoa(mtu)) {
				t.Errorf("%s: MTU %d, want one of %s; %v", transport, mtu, want, err)
			}
		}
	}
	b := newBench(t, "mem")
	b.Baselines, b.Publishers, b.Seconds = nil, b.Publishers[:1], 0.05
	b.MTUs = []int{4096}
	ctx, cancel := context.WithCancelCause(t.Context())
	b.Progress = func(what string) {
		if strings.Contains(what, "point 2 of 9") {
			cancel(off)
		}
	}
	result, err := b.Run(ctx, "sizes")
	if sw, ok := result.(*Sweep); !ok || !errors.Is(err, off) || len(sw.Points) != 1 || sw.Points[0].MTU != 4096 {
		t.Errorf("%v, %v", result, err)
	}
}

func TestSweep(t *testing.T) {
	b := newBench(t, "mem")
	b.Publishers, b.Seconds = b.Publishers[:1], 0.05
	sweep, err := b.sweep(t.Context(), "loss", []Settings{b.Settings, func() Settings { s := b.Settings; s.Loss = 0.05; return s }()})
	if err != nil {
		t.Fatal(err)
	}
	points := decoded(t, sweep)["points"].([]any)
	if len(points) != 2 {
		t.Fatalf("%d points", len(points))
	}
	positive(t, points[1].(map[string]any), "ratio_lossless")
	positive(t, points[1].(map[string]any), "loss")
	if sweep.Points[1].Rates["ours"].Subscriber["repaired"] == 0 {
		t.Errorf("nothing was repaired at 5 %% loss: %v", sweep.Points[1].Rates["ours"].Subscriber)
	}
}
