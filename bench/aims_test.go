package bench

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// All aims are measured and judged, each with the command that measures it alone. The last
// step, of ten seconds, is left out here.
func TestAims(t *testing.T) {
	onLinux(t)
	b := newBench(t, "udp")
	b.Seconds = 0.05
	for _, step := range b.aimsSteps() {
		s := b.Settings
		step.settings(&s)
		if err := s.Check(step.scenario, contenders.All()); err != nil {
			t.Errorf("%s: %v", s.command(step.scenario), err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	off := errors.New("called off")
	b.Progress = func(what string) {
		if strings.HasPrefix(what, "step 38 of 38") {
			cancel(off)
		}
	}
	result, err := b.Run(ctx, "aims")
	if !errors.Is(err, off) {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, a := range result.Aims {
		if a.Name == "" || seen[a.Name] || a.Want <= 0 && a.Name != "allocations a message" || !strings.HasPrefix(a.Command, "fanfare bench ") || a.Met != (a.Seen >= a.Want) && !a.Most {
			t.Errorf("%+v", a)
		}
		seen[a.Name] = true
	}
	if len(result.Aims) != 51 || len(result.Parts) != 37 {
		t.Errorf("%d aims by %d results", len(result.Aims), len(result.Parts))
	}
	var text strings.Builder
	if err := Write(&text, result, FormatText); err != nil || strings.Count(text.String(), "PASS")+strings.Count(text.String(), "MISSED") != 51 {
		t.Errorf("%v: %s", err, text.String())
	}
	if list, _ := decoded(t, result)["aims"].([]any); len(list) != 51 {
		t.Errorf("JSON has %d aims", len(list))
	}
	s := Settings{
		Transport: "mem", Sockets: worker.Sockets{MTU: 8192}, Loss: 0.1, Metrics: "localhost:0",
		Traffic: worker.Traffic{Size: 1024, Subs: 4, Receive: "batch", Wait: "spin", Seconds: 10},
	}
	if got := s.command("throughput"); got != "fanfare bench throughput -transport mem -size 1024 -subs 4 -loss 0.1 -receive batch -wait spin -metrics localhost:0 -seconds 10" {
		t.Error(got)
	}
}
