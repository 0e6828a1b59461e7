package report

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/bench"
)

func head(scenario string) bench.Head {
	s := bench.Defaults("udp")
	s.Every = 10 * time.Millisecond
	return bench.Head{Scenario: scenario, Host: bench.Host{CPU: `<script>alert("x")</script>`, Cores: 2, Date: "2026-01-02T03:04:05Z"}, Settings: s}
}

func rates(x float64) *bench.Rates {
	return &bench.Rates{
		MsgsPerS: bench.Spread{Min: x / 2, Median: x, Max: 2 * x}, BytesPerS: bench.Spread{Median: 64 * x},
		PublisherUser: bench.Spread{Median: 0.01}, PublisherSystem: bench.Spread{Median: 0.02},
	}
}

func throughput() *bench.Throughput {
	return &bench.Throughput{
		Head:   head("throughput"),
		Rates:  map[string]*bench.Rates{"ours": rates(50e6), "raw": rates(80e6), "naive": rates(0)},
		Ratios: map[string]bench.Spread{"raw": {Median: 0.625}, "naive": {Median: 250}},
	}
}

func percentiles(us float64) *bench.Percentiles {
	p := &bench.Percentiles{P50: us, P99: 2 * us, P999: 3 * us, Max: 4 * us}
	for _, q := range []float64{0, 50, 90, 99, 99.9} {
		p.Curve = append(p.Curve, bench.Point{Percentile: q, Us: us + q})
	}
	p.Curve = append(p.Curve, bench.Point{Percentile: 100, Us: 4 * us})
	return p
}

func latency(bursts bool) *bench.Latency {
	l := &bench.Latency{Head: head("latency"), By: map[string]*bench.Percentiles{"ours": percentiles(20), "raw": percentiles(10)}}
	if bursts {
		l.Scenario, l.Bursts = "burst", l.By
	}
	return l
}

func sweep(scenario string) *bench.Sweep {
	s := &bench.Sweep{Head: head(scenario)}
	for i, n := range []int{1, 2, 4} {
		t := throughput()
		t.Ratios["lossless"] = bench.Spread{Median: 1 - 0.1*float64(i)}
		s.Points = append(s.Points, bench.SweepPoint{MTU: 1472, Size: 32 * n, Subs: n, Together: i == 2, Loss: 0.1 * float64(i), Throughput: t})
	}
	return s
}

func suite() *bench.Suite {
	return &bench.Suite{Head: head("all"), Results: []bench.Result{
		throughput(), sweep("sizes"), sweep("fanout"), sweep("loss"), latency(false), latency(true), &bench.Idle{Head: head("idle")},
	}}
}

func write(t *testing.T, result bench.Result) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, result); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The page is complete in itself: nothing is fetched, nothing is run.
func TestSelfContained(t *testing.T) {
	text := write(t, suite())
	for _, pattern := range []string{`https?://`, `<script`, `<link`, `<img`, `<iframe`, `@import`, `url\(`, `\ssrc=`, `\shref=`, `xlink`, `\son[a-z]+=`} {
		if m := regexp.MustCompile(`(?i)` + pattern).FindString(text); m != "" {
			t.Errorf("the page has %q", m)
		}
	}
	if !strings.HasPrefix(text, "<!doctype html>") || !strings.Contains(text, "prefers-color-scheme: dark") {
		t.Error("the page is no HTML for light and dark")
	}
	if n := strings.Count(text, "<svg "); n != 8 {
		t.Errorf("%d pictures, want 8", n)
	}
	if m := regexp.MustCompile(`(?i)(fill|stroke):#[0-9a-f]{6}`).FindString(text); m != "" {
		t.Errorf("a picture has the colour %s, which does not follow light and dark", m)
	}
	for _, want := range []string{"50M", "0.62×", "250×", "99.9 %", "goroutines", "&lt;script&gt;", "2026-01-02T03:04:05Z"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// What is aimed at stands first.
func TestAims(t *testing.T) {
	s := suite()
	s.Aims = []bench.Aim{{Name: "speed", Want: 2e6, Seen: 3e6, Unit: "/s", Met: true}, {Name: "size", Want: 1, Seen: 2.5, Most: true, Unit: "MiB", Command: "fanfare bench x"}}
	text := write(t, s)
	for _, want := range []string{"<h2>Aims</h2>", "1 of 2", "<td>at least 2M/s</td><td>3M/s</td><td></td><td>PASS</td>", "<td>at most 1 MiB</td><td>2.5 MiB</td><td></td><td>MISSED</td><td>fanfare bench x</td>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Index(text, "<h2>Aims") > strings.Index(text, "<h2>Throughput") {
		t.Error("aims do not stand first")
	}
}

// The pictures are well-formed, and have a curve for each contestant.
func TestPictures(t *testing.T) {
	text := write(t, sweep("fanout"))
	pictures := regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(text, -1)
	if len(pictures) != 2 {
		t.Fatalf("%d pictures, want 2", len(pictures))
	}
	for _, p := range pictures {
		d := xml.NewDecoder(strings.NewReader(p))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in %s", err, p)
			}
		}
		for _, colour := range []string{"stroke:var(--c0)", "var(--c1)", "fill:var(--ink)"} {
			if !strings.Contains(p, colour) {
				t.Errorf("a picture has no %s", colour)
			}
		}
	}
}

// What has no values, or only zeros, is a page too.
func TestEmpty(t *testing.T) {
	for _, r := range []bench.Result{
		&bench.Throughput{Head: head("throughput")},
		&bench.Throughput{Head: head("throughput"), Rates: map[string]*bench.Rates{"ours": {}}},
		&bench.Latency{Head: head("latency"), By: map[string]*bench.Percentiles{"ours": {}}},
		&bench.Sweep{Head: head("sizes")}, &bench.Sweep{Head: head("loss")},
		&bench.Sweep{Head: head("fanout"), Points: []bench.SweepPoint{{Subs: 1, Throughput: &bench.Throughput{Rates: map[string]*bench.Rates{"ours": {}}}}}},
		&bench.Idle{Head: head("idle")}, &bench.Suite{Head: head("all")},
	} {
		if text := write(t, r); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%T: the page has NaN or Inf", r)
		}
	}
	if Write(io.Discard, nil) == nil {
		t.Error("what is no result is written")
	}
}

// A result that is incomplete says so, and says once why.
func TestIncomplete(t *testing.T) {
	why := "the wire was cut"
	one, all := throughput(), suite()
	one.Incomplete, all.Incomplete = why, why
	for _, r := range []bench.Result{one, all} {
		text, _, _ := strings.Cut(write(t, r), "<h2>All there is")
		if strings.Count(text, "Incomplete: "+why) != 1 {
			t.Errorf("%T: the page says %d times why it is incomplete", r, strings.Count(text, why))
		}
	}
	if strings.Contains(write(t, suite()), "Incomplete") {
		t.Error("what is complete says that it is not")
	}
}

// Curves of one colour have dashes of their own each.
func TestCurvesDiffer(t *testing.T) {
	s := sweep("sizes")
	for _, p := range s.Points {
		p.MTU = 1472
		p.Rates["shared"], p.Rates["channel"] = rates(1e6), rates(2e6)
	}
	seen := make(map[[2]int]string)
	for _, l := range sizeCharts(s)[0].lines {
		look := [2]int{l.colour(), l.dashes}
		if other, ok := seen[look]; ok || (l.name == "ours, MTU 1472") != (l.dashes == 0) {
			t.Errorf("%q looks as %q", l.name, other)
		}
		seen[look] = l.name
	}
	if len(seen) != 5 {
		t.Errorf("%d curves", len(seen))
	}
	// A point that was not measured is none.
	loss := sweep("loss")
	delete(loss.Points[2].Ratios, "lossless")
	if got := lossChart(loss).lines[0].points; len(got) != 2 {
		t.Errorf("points %v", got)
	}
}

func TestPercentileName(t *testing.T) {
	for x, want := range map[float64]string{1: "0 %", 10: "90 %", 100: "99 %", 1000: "99.9 %", 10000: "99.99 %"} {
		if got := percentileName(x); got != want {
			t.Errorf("%g: %q, want %q", x, got, want)
		}
	}
}
