// Package report writes results of package bench as one self-contained HTML page, including the scripts for its charts.
package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/internal/uplot"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// content is the data of the page.
type content struct {
	*bench.Result
	Sections []section
	JSON     string
	Style    template.CSS // for charts
	Scripts  []template.JS
	Allowed  string // hashes of the scripts that a browser may run
}

// section is one scenario.
type section struct {
	Title, Lead string
	Warnings    []string // about the host and baselines
	Verdicts    []bench.Aim
	Facts       []fact
	Bars        []bar
	Charts      []*chart
	Table       bench.Table
	Open        bool // whether the tables are initially open
}

// fact is a key figure.
type fact struct{ Value, What string }

// bar is a bar for comparison with others.
type bar struct {
	Name, Value, Note string
	Percent           float64 // of the longest bar
	Ours              bool
}

// Page returns the page for a result of bench.Bench.Run.
func Page(result *bench.Result) ([]byte, error) {
	raw, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return nil, err
	}
	c := content{Result: result, JSON: string(raw), Style: template.CSS(uplot.Style), Scripts: scripts, Allowed: allowed}
	if len(result.Aims) > 0 {
		c.Sections = append(c.Sections, aimsSection(result))
	}
	for _, r := range result.Results() {
		c.Sections = append(c.Sections, sectionOf(r))
	}
	var b bytes.Buffer
	err = page.Execute(&b, c)
	return b.Bytes(), err
}

// titles of sections, by scenario.
var titles = map[string]string{
	"throughput": "Throughput", "latency": "Latency", "idle": "Idle", "request": "Requests", "loss": "Loss",
}

func sectionOf(r *bench.Result) section {
	s := section{Title: titles[r.Scenario], Lead: r.Lead(), Warnings: r.Warnings(), Verdicts: r.Verdicts(),
		Table: r.Table(true)}
	p := r.Contest()
	switch r.Scenario {
	case "throughput":
		s.Title += fmt.Sprintf(", %d-byte messages", r.Settings.Size)
		s.Bars = bars(p)
		if p.Rate(ours) > 0 {
			s.Facts = []fact{{bench.Short(p.Rate(ours)), "messages a second"}, {bench.Short(p.Value(ours, "bytes_per_s")) + "B", "payload a second"}}
		}
		for _, key := range p.Keys() {
			if x := p.Ratio(key); x.Has() && (key == "one" || !bench.IsOurs(key)) {
				s.Facts = append(s.Facts, fact{ratio(x.Value), "of " + key})
			}
		}
	case "latency", "request":
		if r.Settings.Loss > 0 {
			s.Title += fmt.Sprintf(", %g %% loss", 100*r.Settings.Loss)
		}
		if r.Scenario == "latency" {
			s.Lead += ". Open loop: delays count from the time when a message was due"
		}
		for _, q := range []string{"p50", "p99", "p999"} {
			if late := p.Row(ours, q+"_us"); late.Has() {
				s.Facts = append(s.Facts, fact{micros(late.Value), strings.Replace(q, "999", "99.9", 1)})
			}
		}
		s.Charts = []*chart{percentileChart(s.Title, p)}
	case "loss":
		s.Charts = []*chart{lossChart(r)}
	case "idle":
		for _, row := range s.Table.Rows {
			s.Facts = append(s.Facts, fact{row[1] + " %", "of a core: " + row[0]})
		}
	}
	return s
}

// bars compare messages a second.
func bars(p *bench.Point) (list []bar) {
	maximum := 0.0
	for _, key := range p.Keys() {
		maximum = max(maximum, p.Rate(key))
	}
	for _, key := range p.Keys() {
		b := bar{Name: key, Value: bench.Short(p.Rate(key)) + "/s", Ours: bench.IsOurs(key), Note: p.OursIs(key)}
		if b.Note != "" && b.Note[0] != '(' { // already relative to ours
			b.Note = "ours is " + b.Note + " of it"
		}
		if maximum > 0 {
			b.Percent = 100 * p.Rate(key) / maximum
		}
		list = append(list, b)
	}
	return list
}

func ratio(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f×", x)
	}
	return fmt.Sprintf("%.2f×", x)
}

func micros(x float64) string {
	if x >= 10000 {
		return fmt.Sprintf("%.1f ms", x/1000)
	}
	return fmt.Sprintf("%.0f µs", x)
}

func aimsSection(r *bench.Result) section {
	return section{
		Title: "Aims", Lead: "The aims of Fanfare, the measured figures, and what the machine can do according to a baseline of the same run",
		Facts: []fact{{fmt.Sprintf("%d of %d", len(r.Aims)-len(r.Missed()), len(r.Aims)), "reached"}},
		Table: r.AimsTable(true), Open: true,
	}
}
