package metrics

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

var update = flag.Bool("update", false, "write the tables of docs/operate/metrics.md")

// family is one metric, as listed in the document.
type family struct{ name, kind, labels, help string }

var described = regexp.MustCompile(`fqName: "([^"]*)", help: "(.*)", constLabels: \{\}, variableLabels: \{([^}]*)\}`)

// families are all metrics of a collector.
func families(t *testing.T) []family {
	out := make(chan *prometheus.Desc)
	go func() {
		NewCollector(nil).Describe(out)
		close(out)
	}()
	var all []family
	for d := range out {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%v: unexpected format", d)
		}
		kind := "gauge"
		if strings.HasSuffix(m[1], "_total") {
			kind = "counter"
		}
		if slices.ContainsFunc(histograms, func(h histogram) bool { return h.desc == d }) {
			kind = "histogram"
		}
		all = append(all, family{m[1], kind, strings.ReplaceAll(m[3], ",", ", "), m[2]})
	}
	slices.SortFunc(all, func(a, b family) int { return strings.Compare(a.name, b.name) })
	return all
}

// The tables of the document equal those of the code.
func TestDocument(t *testing.T) {
	const file = "../../docs/operate/metrics.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var causes, metrics strings.Builder
	causes.WriteString("| cause | counted in | meaning | what to do |\n|---|---|---|---|\n")
	for _, c := range pubsub.Causes() {
		_, dropped := c.Dropped(&stats.Bus{})
		_, lost := c.Lost(&stats.Bus{})
		var in []string
		for _, counter := range []struct {
			name string
			has  bool
		}{{"dropped", dropped}, {"lost", lost}, {"gaps", c.Gap != 0}} {
			if counter.has {
				in = append(in, counter.name)
			}
		}
		fmt.Fprintf(&causes, "| `%s` | %s | %s | %s |\n", c.Label, strings.Join(in, ", "), c.Help, c.Remedy)
	}
	metrics.WriteByte('\n')
	for _, f := range families(t) {
		name, help := f.name, f.help
		if f.labels != "" {
			name += "{" + f.labels + "}"
		}
		if f.kind == "histogram" {
			help = "histogram. " + help
		}
		fmt.Fprintf(&metrics, "- `%s`: %s\n", name, help)
	}
	metrics.WriteByte('\n')
	want := section(t, section(t, string(text), "causes", causes.String()), "metrics", metrics.String())
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("the tables of %s differ from the code: go test ./pubsub/metrics -run TestDocument -update writes them", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// section replaces the section name of text with table.
func section(t *testing.T, text, name, table string) string {
	before, rest, ok := strings.Cut(text, "<!-- "+name+" -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end -->")
	if !ok || !ended {
		t.Fatalf("no section %s", name)
	}
	return before + "<!-- " + name + " -->\n" + table + "<!-- end -->" + after
}
