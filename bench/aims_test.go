package bench

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Each step of aims has a valid command.
func TestAimsCommands(t *testing.T) {
	onLinux(t)
	for _, step := range steps {
		s := Defaults("udp")
		scenario, err := s.command(step.command)
		if err != nil {
			t.Errorf("the command %q cannot be parsed: %v", step.command, err)
		}
		if err := s.Check(scenario, contenders.All()); err != nil {
			t.Errorf("the settings of %q are invalid: %v", step.command, err)
		}
	}
	s := Defaults("udp")
	scenario, err := s.command("latency -transport shm -subs 4 -topics 8 -order zipf -loss 0.1 -seconds 10 -alone -wait spin -baseline raw,ring")
	want := Defaults("shm")
	want.Subs, want.Topics, want.Order, want.Loss, want.Seconds, want.Alone, want.Wait = 4, 8, worker.OrderZipf, 0.1, 10, true, worker.WaitSpin
	want.Baselines = []string{contenders.Raw, contenders.Ring}
	if err != nil || scenario != "latency" || !reflect.DeepEqual(s, want) {
		t.Errorf("scenario %s, error %v, settings %+v, want latency with %+v", scenario, err, s, want)
	}
	if _, err := s.command("latency -loss much"); err == nil {
		t.Error("an invalid value of a flag is accepted")
	}
}

// Several subscribers are compared with one, and several legs with the first alone, in turn.
func TestComparedWithOne(t *testing.T) {
	b := newBench(t, "mem")
	b.Seconds, b.Baselines = 0.05, nil
	b.Subs, b.Alone, b.URL, b.Legs = 3, true, "mem://TestBesideOne", []string{"mem://TestBesideOne2"}
	result, err := b.Run(t.Context(), "throughput")
	if err != nil {
		t.Fatal(err)
	}
	m, p := decoded(t, result), result.Contest()
	for _, key := range []string{keyAlone, keyOneLeg} {
		positive(t, m, key, "msgs_per_s", "median")
		if seen, want := p.Ratio(key).Value, p.Rate(keyOurs)/p.Rate(key); p.Settings.Runs == 1 && seen != want {
			t.Errorf("%s: the ratio is %v, want %v", key, seen, want)
		}
	}
	if legs := p.Details[keyOurs].Subscriber; legs == nil {
		t.Error("subscribers have no counters")
	}
}

var aimsRun = flag.Bool("bench.aims", false, "TestAims runs each step of aims briefly: a minute in total")

// All aims are measured and evaluated. The last step, which takes ten seconds, is skipped.
func TestAims(t *testing.T) {
	if !*aimsRun {
		return
	}
	onLinux(t)
	t.Setenv(inspect.Variable, filepath.Join(t.TempDir(), "fanfare")) // ignore sockets of other tests
	b := newBench(t, "udp")
	b.Seconds = 0.05
	ctx, cancel := context.WithCancelCause(t.Context())
	off := errors.New("cancelled")
	b.Progress = func(what string) {
		if strings.HasPrefix(what, "step 44 of 44") {
			cancel(off)
		}
	}
	result, err := b.Run(ctx, "aims")
	if !errors.Is(err, off) {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, a := range result.Aims {
		if a.Name == "" || seen[a.Name] || a.Want <= 0 && a.Name != "allocations a message" || !strings.HasPrefix(a.Command, "fanfare bench ") || a.Met != (a.Seen >= a.Want) && !a.Max {
			t.Errorf("aim %+v, want its own name, a wanted value, a command and a matching verdict", a)
		}
		seen[a.Name] = true
	}
	if len(result.Aims) != 62 || len(result.Parts) != 43 {
		t.Errorf("%d aims from %d results, want 62 and 43", len(result.Aims), len(result.Parts))
	}
	var text strings.Builder
	if err := Write(&text, result, false); err != nil || strings.Count(text.String(), "PASS")+strings.Count(text.String(), "MISSED") != 62 {
		t.Errorf("report with error %v, want 62 times PASS or MISSED: %s", err, text.String())
	}
	if list, _ := decoded(t, result)["aims"].([]any); len(list) != 62 {
		t.Errorf("JSON has %d aims, want 62", len(list))
	}
	wanted := make(map[string]float64)
	for _, a := range result.Aims {
		wanted[a.Name] = a.Want
	}
	for name, want := range map[string]float64{ // as decided
		"64 bytes, share of raw": 0.7, "four subscribers, each, share of raw": 0.65, "1 KiB, payload, share of raw": 0.95,
		"in process, share of raw over UDP": 80.0 / 92, "in process, relative to a channel": 3,
		"shared memory, share of raw over UDP": 80.0 / 92, "shared memory, relative to UDP": 2, "shared memory, relative to UDP with equally large packets": 2, "shared memory, share of a ring": 0.6, "shared memory, each of four subscribers, relative to one": 0.6,
		"16 topics in turn, relative to one": 0.7, "1,000 topics in turn, relative to one": 0.7, "10,000 topics in turn, relative to one": 0.7, "1,000 topics in bursts of 10 to 100, relative to one": 0.7,
		"8 publishers, relative to one": 0.6, "32 publishers, relative to one": 0.6, "64 publishers, relative to one": 0.6,
		"share kept at 1 % loss with keys, relative to without": 0.95,
		"1,000 topics by a pattern, relative to by name":        0.9,
	} {
		if wanted[name] != want {
			t.Errorf("%s: the aim is %v, want %v", name, wanted[name], want)
		}
	}
}
