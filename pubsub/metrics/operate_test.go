package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

const operate = "../../docs/operate"

// program returns the path of a program of Debian's package prometheus.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		testenv.Skip(t, "%s is not installed (on Debian, apt install prometheus): %v", name, err)
	}
	return path
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(operate, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eventRule is a rule that fires when an event happens.
var eventRule = regexp.MustCompile(`alert: (\w+)\n\s+expr: increase\(fanfare_events_total\{event="(\w+)"\}\[\w+\]\) > 0\n`)

// The rules for alerts pass alerts_test.yml, which tests each of them but those for an event: these fire for a new one.
func TestRules(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	rules, tests := document(t, "alerts.yml"), document(t, "alerts_test.yml")
	for _, m := range eventRule.FindAllStringSubmatch(rules, -1) {
		for values, firing := range map[string]string{"0+0x4 1+0x20": "{labels: '{}', value: 1}", "5+0x30": ""} {
			tests += fmt.Sprintf(`
  - interval: 1m
    input_series:
      - {series: 'fanfare_events_total{job="f",instance="h:1",event="%s"}', values: '%s'}
    promql_expr_test:
      - expr: count(ALERTS{alertname="%s", alertstate="firing"})
        eval_time: 8m
        exp_samples: [%s]
`, m[2], values, m[1], firing)
		}
	}
	names := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(names) == 0 {
		t.Fatal("no rule was found: has the format changed?")
	}
	for _, m := range names {
		if !strings.Contains(tests, `alertname="`+m[1]+`"`) {
			t.Errorf("alerts_test.yml does not test %s", m[1])
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"alerts.yml": rules, "alerts_test.yml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), program(t, "promtool"), "test", "rules", "alerts_test.yml")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("running the command: %v: %s", err, out)
	}
}

var (
	selector = regexp.MustCompile(`\b(fanfare_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)=~?"([^"]*)"`)
)

// Rules and dashboard use only metrics, causes and events that exist.
func TestExpressions(t *testing.T) {
	known := make(map[string]family)
	for _, f := range families(t) {
		known[f.name] = f
		if f.kind == "histogram" { // the series of a classic histogram
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				known[f.name+suffix] = f
			}
		}
	}
	values := map[string]map[string]bool{"cause": {}, "event": {}}
	for _, c := range pubsub.Causes() {
		values["cause"][c.Label] = true
	}
	for k := events.Kind(0); !strings.HasPrefix(k.String(), "event("); k++ {
		values["event"][k.Label()] = true
	}
	check := func(file, expr string) {
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			f, ok := known[m[1]]
			if !ok {
				t.Errorf("%s: there is no metric %s", file, m[1])
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !strings.Contains(f.labels, l[1]) {
					t.Errorf("%s: %s has no label %s", file, m[1], l[1])
				}
				for _, value := range strings.Split(l[2], "|") {
					if values[l[1]] != nil && !values[l[1]][value] {
						t.Errorf("%s: no %s is %q", file, l[1], value)
					}
				}
			}
		}
	}
	exprs := regexp.MustCompile(`(?m)^\s+expr: (.*)$`).FindAllStringSubmatch(document(t, "alerts.yml"), -1)
	for _, m := range exprs {
		check("alerts.yml", m[1])
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(document(t, "grafana.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			check("grafana.json", target.Expr)
		}
	}
	if len(exprs) < 10 || len(dashboard.Panels) < 10 {
		t.Errorf("%d rules and %d panels: has the format changed?", len(exprs), len(dashboard.Panels))
	}
}

// Every event and every cause has a rule, or is listed in the document as one that needs none, with the reason. Rules
// named in a reason exist.
func TestEveryEventHasARule(t *testing.T) {
	rules, metricsPage := document(t, "alerts.yml"), document(t, "metrics.md")
	_, rest, ok := strings.Cut(metricsPage, "<!-- without a rule -->")
	list, _, ended := strings.Cut(rest, "<!-- end -->")
	if !ok || !ended {
		t.Fatal("metrics.md has no list of events and causes without a rule")
	}
	left := make(map[string]bool) // without a rule, as the document says
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\| (.+) \\|$").FindAllStringSubmatch(list, -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[1], -1) {
			left[name[1]] = true
		}
		for _, name := range regexp.MustCompile(`Fanfare\w+`).FindAllString(row[2], -1) {
			if !strings.Contains(rules, "alert: "+name+"\n") {
				t.Errorf("metrics.md: the rule %s of %s does not exist", name, row[1])
			}
		}
	}
	has := map[string]map[string]bool{"cause": {}, "event": {}} // with a rule
	anyGap := false
	for _, expr := range regexp.MustCompile(`(?m)^\s+expr: (.*)$`).FindAllStringSubmatch(rules, -1) {
		for _, m := range selector.FindAllStringSubmatch(expr[1], -1) {
			anyGap = anyGap || m[1] == "fanfare_gaps_total" && m[2] == ""
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				for _, value := range strings.Split(l[2], "|") {
					if has[l[1]] != nil {
						has[l[1]][value] = true
					}
				}
			}
		}
	}
	known := make(map[string]bool)
	check := func(what, label string, ruled bool) {
		known[label] = true
		if ruled == left[label] {
			t.Errorf("%s %s: has a rule in alerts.yml: %v; needs none according to metrics.md: %v", what, label, ruled, left[label])
		}
	}
	for k := range events.Kinds {
		if causes := pubsub.Causes(); !slices.ContainsFunc(causes, func(c pubsub.CauseInfo) bool { return c.Label == k.Label() }) {
			check("event", k.Label(), has["event"][k.Label()])
		} else if !has["event"][k.Label()] {
			t.Errorf("event %s has the name of a cause, and no rule for the event", k.Label())
		}
	}
	for _, c := range pubsub.Causes() {
		check("cause", c.Label, has["cause"][c.Label] || c.Gap != 0 && anyGap)
	}
	for label := range left {
		if !known[label] {
			t.Errorf("metrics.md: no event or cause is called %s", label)
		}
	}
}

// freeAddress returns an unused TCP address on loopback.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A real Prometheus scrapes two buses of a process, evaluates the rules, and answers the dashboard's queries of
// histograms, classic and native.
func TestScrape(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	binary := program(t, "prometheus")
	for _, c := range []struct {
		name  string
		flags []string
		asks  string // a query that only this kind answers
	}{
		{"classic", nil, `fanfare_publish_packet_messages_bucket{bus="pub",le=~"1|1.0"}`},
		{"native", []string{"--enable-feature=native-histograms"}, `histogram_count(fanfare_publish_packet_messages{bus="pub"})`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ask := scraper(t, binary, lossy(t), c.flags)
			wants := []struct{ path, query, want string }{
				{"/api/v1/query", `fanfare_publish_messages_total{bus="pub"}`, `"value":[`},
				{"/api/v1/query", c.asks, `"value":[`},
				{"/api/v1/query", `count(fanfare_dropped_packets_total)`, `"value":[`},
				{"/api/v1/query", `up{job="fanfare"}`, `"1"]`},
				{"/api/v1/rules", "", `"name":"FanfareLossForGood"`},
			}
			for _, expr := range histogramExpressions(t) {
				wants = append(wants, struct{ path, query, want string }{"/api/v1/query", "(" + expr + ") > 0", `"value":[`})
			}
			for _, w := range wants {
				text := ""
				for limit := time.Now().Add(time.Minute); !strings.Contains(text, w.want); text = ask(w.path, w.query) {
					if time.Now().After(limit) {
						t.Fatalf("%s %s: %s, want %s in it", w.path, w.query, text, w.want)
					}
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
}

// histogramExpressions are the dashboard's expressions with histograms.
func histogramExpressions(t *testing.T) (all []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(document(t, "grafana.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, x := range p.Targets {
			if strings.Contains(x.Expr, "histogram_") {
				all = append(all, x.Expr)
			}
		}
	}
	if len(all) < 3 {
		t.Fatalf("the dashboard has %d expressions with histograms: has the format changed?", len(all))
	}
	return all
}

// lossy serves the metrics of a bus that publishes during the test, and of one that receives it with losses, which
// are repaired.
func lossy(t *testing.T) http.Handler {
	t.Helper()
	open := func(c pubsub.Config) *pubsub.Bus {
		c.Logger = slog.New(slog.DiscardHandler)
		bus, err := c.Open(t.Context(), "mem://"+strings.ReplaceAll(t.Name(), "/", "-"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { bus.Close() })
		return bus
	}
	sub := open(pubsub.Config{Faults: "loss=0.2,seed=1"})
	if _, err := sub.Handle("x", func(pubsub.Message, error) {}); err != nil {
		t.Fatal(err)
	}
	pub := open(pubsub.Config{})
	p, err := pub.Publisher("x")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); running.Wait() }) // before the buses are closed
	running.Go(func() {
		for p.Publish(ctx, []byte("hello")) == nil {
			time.Sleep(5 * time.Millisecond)
		}
	})
	registry := prometheus.NewPedanticRegistry()
	for name, bus := range map[string]*pubsub.Bus{"pub": pub, "sub": sub} {
		prometheus.WrapRegistererWith(prometheus.Labels{"bus": name}, registry).MustRegister(NewCollector(bus))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// scraper starts a Prometheus and returns a function that queries it.
func scraper(t *testing.T, binary string, metrics http.Handler, flags []string) (ask func(path, query string) string) {
	t.Helper()
	target := httptest.NewServer(metrics)
	t.Cleanup(target.Close)
	dir, err := filepath.Abs(operate)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("rule_files: [%q]\nscrape_configs: [{job_name: fanfare, scrape_interval: 1s, static_configs: [{targets: [%q]}]}]\n",
		filepath.Join(dir, "alerts.yml"), strings.TrimPrefix(target.URL, "http://"))
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	listen := freeAddress(t)
	var said strings.Builder
	cmd := exec.Command(binary, append([]string{"--config.file=" + file, "--storage.tsdb.path=" + t.TempDir(), "--web.listen-address=" + listen}, flags...)...)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("output of the command:\n%s", said.String())
		}
	})
	return func(path, query string) string {
		client := http.Client{Timeout: 5 * time.Second}
		resp, err := client.Get("http://" + listen + path + "?query=" + url.QueryEscape(query))
		if err != nil {
			return err.Error() // not yet
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
}
