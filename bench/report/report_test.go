package report

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/bench/worker"
)

func result(scenario string, points ...bench.Point) *bench.Result {
	s := bench.Defaults("udp")
	return &bench.Result{Points: points, Scenario: scenario, Host: bench.Host{CPU: `<script>alert("x")</script>`, Cores: 2, Date: "2026-01-02T03:04:05Z"}, Settings: s}
}

// row is a figure of three runs.
func row(contestant, metric string, x float64) bench.Row {
	return bench.Row{Contestant: contestant, Metric: metric, Value: x, Spread: bench.Spread{Min: x / 2, Median: x, Max: 2 * x}, Runs: []float64{x / 2, x, 2 * x}}
}

func rates(contestant string, x float64) []bench.Row {
	return []bench.Row{row(contestant, "msgs_per_s", x), row(contestant, "bytes_per_s", 64*x), row(contestant, "publisher_user_s_per_mmsg", 0.01), row(contestant, "publisher_system_s_per_mmsg", 0.02)}
}

func contest() bench.Point {
	p := bench.Point{Settings: bench.Settings{Sockets: worker.Sockets{MTU: 1472}, Traffic: worker.Traffic{Size: 64, Subs: 1}}}
	p.Rows = slices.Concat(rates("ours", 50e6), rates("raw", 80e6), rates("naive", 0), []bench.Row{row("", "ratio_raw", 0.625), row("", "ratio_naive", 250)})
	return p
}

func throughput() *bench.Result { return result("throughput", contest()) }

func latency() *bench.Result {
	var p bench.Point
	p.Details = make(map[string]bench.Detail)
	for contestant, us := range map[string]float64{"ours": 20, "raw": 10} {
		p.Rows = append(p.Rows, row(contestant, "p50_us", us), row(contestant, "p99_us", 2*us), row(contestant, "p999_us", 3*us), row(contestant, "max_us", 4*us))
		var d bench.Detail
		for _, q := range []float64{0, 50, 90, 99, 99.9} {
			d.Curve = append(d.Curve, bench.CurvePoint{Percentile: q, Us: us + q})
		}
		d.Curve = append(d.Curve, bench.CurvePoint{Percentile: 100, Us: 4 * us})
		p.Details[contestant] = d
	}
	slices.SortStableFunc(p.Rows, func(a, b bench.Row) int { return strings.Compare(a.Contestant, b.Contestant) })
	return result("latency", p)
}

func sweep() *bench.Result {
	r := result("loss")
	for i := range 3 {
		p := contest()
		p.Rows = append(p.Rows, row("", "ratio_lossless", 1-0.1*float64(i)))
		p.Settings.Loss = 0.1 * float64(i)
		r.Points = append(r.Points, p)
	}
	return r
}

func suite() *bench.Result {
	r := result("aims")
	r.Parts = []*bench.Result{throughput(), sweep(), latency(), result("idle")}
	return r
}

// without removes the rows of a contestant or a ratio.
func without(p *bench.Point, contestant, metric string) {
	p.Rows = slices.DeleteFunc(p.Rows, func(r bench.Row) bool { return r.Contestant == contestant && (metric == "" || r.Metric == metric) })
}

func write(t *testing.T, result *bench.Result) string {
	t.Helper()
	b, err := Page(result)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The page is self-contained: nothing is fetched, and browsers may run only its own scripts, those
// that draw the charts.
func TestSelfContained(t *testing.T) {
	text := write(t, suite())
	for _, script := range scripts {
		var found bool
		if text, _, found = cutOut(text, "<script>"+string(script)+"</script>"); !found {
			t.Errorf("the page lacks the script %.60q", script)
		}
		sum := sha256.Sum256([]byte(script))
		if !strings.Contains(html.UnescapeString(text), "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
			t.Errorf("the page does not allow the script %.60q", script)
		}
	}
	for _, pattern := range []string{`https?://`, `<script`, `<link`, `<img`, `<iframe`, `@import`, `url\(`, `\ssrc=`, `\shref=`, `xlink`, `\son[a-z]+=`} {
		if m := regexp.MustCompile(`(?i)` + pattern).FindString(text); m != "" {
			t.Errorf("the page contains %q, which it must not", m)
		}
	}
	if !strings.HasPrefix(text, "<!doctype html>") || !strings.Contains(text, "prefers-color-scheme: dark") || !strings.Contains(text, "default-src 'none'") {
		t.Error("the page lacks the doctype, the dark colours or the policy")
	}
	if n := len(chartsOf(t, text)); n != 2 {
		t.Errorf("%d charts, want 2", n)
	}
	for _, want := range []string{"50M", "0.62×", "250×", "99.9 %", "&lt;script&gt;", "2026-01-02T03:04:05Z"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func cutOut(text, part string) (rest, cut string, found bool) {
	before, after, found := strings.Cut(text, part)
	return before + after, part, found
}

// chartsOf are the charts of a page, as its script reads them.
func chartsOf(t *testing.T, page string) (all []chart) {
	t.Helper()
	for _, m := range regexp.MustCompile(` data-chart="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		var c chart
		if err := json.Unmarshal([]byte(html.UnescapeString(m[1])), &c); err != nil {
			t.Fatalf("the chart is no JSON object: %v in %s", err, m[1])
		}
		all = append(all, c)
	}
	return all
}

// The aims come first.
func TestAims(t *testing.T) {
	s := suite()
	s.Aims = []bench.Aim{{Name: "speed", Want: 2e6, Seen: 3e6, Unit: "/s", Met: true}, {Name: "size", Want: 1, Seen: 2.5, Max: true, Unit: "MiB", Command: "fanfare bench x"}}
	text := write(t, s)
	for _, want := range []string{"<h2>Aims</h2>", "1 of 2", "<td>at least 2M/s</td><td>3M/s</td><td></td><td>PASS</td>", "<td>at most 1 MiB</td><td>2.5 MiB</td><td></td><td>MISSED</td><td>fanfare bench x</td>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Index(text, "<h2>Aims") > strings.Index(text, "<h2>Throughput") {
		t.Error("the aims do not come first")
	}
}

// A result without values, or with zeros only, also yields a page.
func TestEmpty(t *testing.T) {
	for _, scenario := range append(bench.Scenarios(), "none") {
		for _, points := range [][]bench.Point{nil, {{}}, {{Rows: rates("ours", 0)}}} {
			r := result(scenario, points...)
			if text, _, _ := strings.Cut(write(t, r), "<script>"); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%s: the page has NaN or Inf", scenario)
			}
		}
	}
}

// An incomplete result is marked, with the reason once.
func TestIncomplete(t *testing.T) {
	why := "the wire was cut"
	one, all := throughput(), suite()
	one.Incomplete, all.Incomplete = why, why
	for _, r := range []*bench.Result{one, all} {
		text, _, _ := strings.Cut(write(t, r), "<h2>All figures")
		if strings.Count(text, "Incomplete: "+why) != 1 {
			t.Errorf("%s: the page gives the reason %d times, want once", r.Scenario, strings.Count(text, why))
		}
	}
	if strings.Contains(write(t, suite()), "Incomplete") {
		t.Error("a complete result is marked incomplete")
	}
}

// A point that was not measured is omitted.
func TestLossChart(t *testing.T) {
	loss := sweep()
	without(&loss.Points[2], "", "ratio_lossless")
	if got := chartsOf(t, write(t, loss))[0].Lines[0]; !slices.Equal(got.X, []float64{0, 10}) || !slices.Equal(got.Y, []float64{100, 90}) {
		t.Errorf("points %+v, want (0, 100) and (10, 90)", got)
	}
}

func TestPercentileName(t *testing.T) {
	for x, want := range map[float64]string{1: "0 %", 10: "90 %", 100: "99 %", 1000: "99.9 %", 10000: "99.99 %"} {
		if got := percentileName(x); got != want {
			t.Errorf("percentile of %g is %q, want %q", x, got, want)
		}
	}
}
