package main

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// TestMain lets the test binary also run as a worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		os.Exit(worker.Main(context.Background(), os.Stdin, os.Stdout, all()))
	}
	os.Exit(m.Run())
}

// Each peer carries messages under both loads, and all are checked.
func TestPeers(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := bench.Defaults("udp")
	names, err := choose(t.Context(), &s, "throughput", "auto", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench.Bench{Settings: bench.Defaults("udp"), Exe: exe, Contenders: all()}
	b.Baselines = names
	b.Runs, b.Seconds, b.Rate, b.CheckAll = 1, 0.1, 1000, true
	for _, scenario := range []string{"throughput", "latency"} {
		result, err := b.Run(t.Context(), scenario)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if m[name] == nil {
				t.Errorf("%s has no result of %s", scenario, name)
			}
		}
	}
}

// NATS uses as many subjects, each with its messages in order, as Fanfare uses topics.
func TestTopics(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench.Bench{Settings: bench.Defaults("udp"), Exe: exe, Contenders: all()}
	b.Baselines = []string{"nats"}
	b.Runs, b.Seconds, b.Rate, b.CheckAll, b.Topics = 1, 0.1, 1000, true, 100
	for _, order := range worker.Orders() {
		b.Order = order
		for _, scenario := range []string{"throughput", "latency"} {
			result, err := b.Run(t.Context(), scenario)
			if err != nil {
				t.Fatalf("%s, %s: the run failed: %v", order, scenario, err)
			}
			if got := strings.Join(result.Contest().Keys(), " "); got != "ours one nats" {
				t.Errorf(`%s, %s: results of %s, want "ours one nats"`, order, scenario, got)
			}
		}
	}
}

// Requests are answered by all responders.
func TestRequests(t *testing.T) {
	for _, args := range []string{"-all-replies -loss 0.01", "-subs 1 -goroutines 2"} {
		if err := run(t.Context(), strings.Fields("request -requests 50 -runs 1 "+args)); err != nil {
			t.Errorf("request %s failed: %v", args, err)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for args, wantText := range map[string]string{
		"":                            "no scenario given",
		"fanout":                      "no scenario given",
		"throughput latency":          "is too many",
		"throughput -size 3":          "-size 3",
		"throughput -peers fast":      `-peers: baseline "fast" is not one of`,
		"throughput -mtu 1M":          "-mtu",
		"throughput -html -":          "needs a file name",
		"throughput -peers fanfare":   "epgm, naive, nats, raw",
		"throughput -nope":            "-nope",
		"throughput -transport smoke": "udp, shm, mem",

		"throughput -topics 0":               "-topics 0",
		"throughput -topics 8 -order random": "round, zipf, bursts",
		"throughput -order zipf":             "add -topics",
		"throughput -topics 8 -peers naive":  "naive does not support -topics",
		"latency -target 5":                  "-target has no effect in latency",
		"request -peers naive":               "naive does not support requests",
		"throughput -requests 5":             "-requests is only for request",
		"throughput -rate 5":                 "-rate has no effect in throughput",
		"throughput -peers none -target 5":   "select one",
	} {
		if err := run(t.Context(), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), wantText) {
			t.Errorf("%q: %v; want an error with %q", args, err, wantText)
		}
	}
}

// With auto only peers that suit the settings are measured, each once.
func TestChoose(t *testing.T) {
	s := bench.Defaults("udp")
	s.Size = 1 << 17
	names, err := choose(t.Context(), &s, "throughput", "auto", t.TempDir())
	if err != nil || slices.Contains(names, "naive") || !slices.Contains(names, "nats") {
		t.Errorf("baselines %v, error %v, want nats and not naive", names, err)
	}
	s = bench.Defaults("mem")
	s.Size = 100
	if names, err = choose(t.Context(), &s, "throughput", "auto", t.TempDir()); err != nil || len(names) != 0 {
		t.Errorf("in process, 100 bytes: baselines %v, error %v, want none", names, err)
	}
	s = bench.Defaults("udp")
	if names, err = choose(t.Context(), &s, "latency", "raw, nats,raw", t.TempDir()); err != nil || strings.Join(names, " ") != "raw nats" {
		t.Errorf("baselines %v, error %v, want raw and nats", names, err)
	}
}
