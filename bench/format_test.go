package bench

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Lines for benchstat: the host, the units with their directions, and for each run a name
// that tells points apart, a count, and pairs of value and unit.
func TestBenchFormat(t *testing.T) {
	row := func(who, metric, unit string, form form, runs ...float64) Row {
		return newRow(who, metric, unit, form, runs)
	}
	s := Settings{Transport: "udp", Sockets: worker.Sockets{MTU: 1472}, Traffic: worker.Traffic{Size: 64, Subs: 1}, Shape: worker.Shape{Topics: 8, Order: "zipf", Split: true}}
	late := s
	late.Loss, late.Rate, late.Wait, late.Shape = 0.01, 5e4, "park", worker.Shape{}
	all := &Result{Head: Head{Scenario: "all", Host: Host{OS: "linux", Arch: "amd64", CPU: "x y", GOMAXPROCS: 2}}, Parts: []*Result{
		{Head: Head{Scenario: "throughput"}, Points: []Point{{Settings: s, Rows: []Row{
			row("ours", "msgs_per_s", "msgs/s", asSpread, 2e6, 3e6), row("ours", "lost", "lost-msgs", asSum, 0, 1), row("ours", "runs", "", asSum, 1, 1),
			row("raw", "msgs_per_s", "msgs/s", asSpread, 4e6), row("", "ratio_raw", "", asRatio, 0.5),
		}}}},
		{Head: Head{Scenario: "latency"}, Points: []Point{{Settings: late, Rows: []Row{row("ours", "p50_us", "p50-us", asQuantile, 12.5)}}}},
		{Head: Head{Scenario: "idle"}, Points: []Point{{Settings: late, Rows: []Row{row("", "publisher_cpu_percent", "pub-cpu-%", asSpread, 0.25)}}}},
	}}
	var text strings.Builder
	if err := Write(&text, all, FormatBench); err != nil {
		t.Fatal(err)
	}
	want := `goos: linux
goarch: amd64
pkg: github.com/fanfaremq/fanfare/bench
cpu: x y
Unit msgs/s better=higher
Unit lost-msgs better=lower
Unit p50-us better=lower
Unit pub-cpu-% better=lower
BenchmarkThroughput/who=ours/transport=udp/size=64/mtu=1472/subs=1/topics=8/order=zipf/split=true-2 1 2e+06 msgs/s 0 lost-msgs
BenchmarkThroughput/who=ours/transport=udp/size=64/mtu=1472/subs=1/topics=8/order=zipf/split=true-2 1 3e+06 msgs/s 1 lost-msgs
BenchmarkThroughput/who=raw/transport=udp/size=64/mtu=1472/subs=1/topics=8/order=zipf/split=true-2 1 4e+06 msgs/s
BenchmarkLatency/who=ours/transport=udp/size=64/mtu=1472/subs=1/loss=0.01/rate=50000/wait=park-2 1 12.5 p50-us
BenchmarkIdle/who=ours/transport=udp/subs=1/loss=0.01-2 1 0.25 pub-cpu-%
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

// What is measured can be read by benchstat: no unit stands twice in a line, and none has a
// space.
func TestBenchFormatOfRuns(t *testing.T) {
	testenv.Slow(t)
	b := newBench(t, "mem")
	b.Rate, b.Runs, b.Seconds = 2000, 2, 0.05
	name := regexp.MustCompile(`^Benchmark[A-Z][a-z]+(/[a-z-]+=[^/ ]+)+-[0-9]+$`)
	for _, scenario := range []string{"throughput", "latency", "burst", "idle"} {
		result, err := b.Run(t.Context(), scenario)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := Write(&text, result, FormatBench); err != nil {
			t.Fatal(err)
		}
		lines := make(map[string]int)
		for line := range strings.Lines(text.String()) {
			words := strings.Fields(line)
			if !strings.HasPrefix(line, "Benchmark") {
				continue
			}
			lines[words[0]]++
			if !name.MatchString(words[0]) || words[1] != "1" || len(words)%2 != 0 {
				t.Fatalf("%s: line %q", scenario, line)
			}
			var units []string
			for i := 2; i < len(words); i += 2 {
				if _, err := strconv.ParseFloat(words[i], 64); err != nil || slices.Contains(units, words[i+1]) {
					t.Errorf("%s: %s %s of %q: %v", scenario, words[i], words[i+1], line, err)
				}
				units = append(units, words[i+1])
			}
		}
		want := map[string]int{"throughput": 1, "latency": 1, "burst": 2, "idle": 1}[scenario]
		if len(lines) != want {
			t.Errorf("%s: lines of %v, want %d names", scenario, lines, want)
		}
		for name, n := range lines {
			if n != b.Runs {
				t.Errorf("%s has %d lines, want one for each of %d runs", name, n, b.Runs)
			}
		}
	}
}

func TestFormats(t *testing.T) {
	r := &Result{Head: Head{Scenario: "throughput"}}
	for _, f := range Formats() {
		var text strings.Builder
		if err := Write(&text, r, f); err != nil || !strings.HasSuffix(text.String(), "\n") {
			t.Errorf("%s: %v, %q", f, err, text.String())
		}
		if m := map[string]any{}; (json.Unmarshal([]byte(text.String()), &m) == nil) != (f == FormatJSON) {
			t.Errorf("%s is %q", f, text.String())
		}
	}
	if err := Write(&strings.Builder{}, r, "xml"); err == nil || !strings.Contains(err.Error(), "text, json, bench") {
		t.Error(err)
	}
}
