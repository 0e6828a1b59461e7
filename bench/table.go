package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Table is a text table of figures.
type Table struct {
	Columns []string
	Rows    [][]string
}

// kind is the type of contests in a scenario, with its form in tables.
type kind struct {
	load    worker.Load
	metrics []metric
	head    string // title of the column of contestants
	ratio   string // title of the last column, the ratios
	ours    func(p *Point, contestant string) string
}

var (
	full  = kind{worker.LoadFull, fullMetrics, "", "ours is", (*Point).OursIs}
	kinds = map[string]kind{
		"throughput": full,
		"loss":       full,
		"latency":    {worker.LoadPaced, lateMetrics, "delay, µs", "ours is, p50, p99, p99.9", (*Point).lateRatio},
		"request":    {worker.LoadRequest, requestMetrics, "answered after, µs", "ours is, p50, p99, p99.9", (*Point).lateRatio},
		"idle":       {load: worker.LoadIdle, metrics: idleMetrics},
	}
)

// OursIs is the text for a contestant's ratio: ours relative to it, or the ratio that it defines.
func (p *Point) OursIs(contestant string) string {
	r, note := p.Ratio(contestant), ratioOf(contestant).note
	switch {
	case !r.Has():
		return ""
	case strings.HasPrefix(note, "of "):
		return fmt.Sprintf("(%.2f %s)", r.Median, note)
	case note != "":
		return fmt.Sprintf("(%.2f: %s)", r.Median, note)
	default:
		return fmt.Sprintf("%.2f (%.2f – %.2f)", r.Median, r.Min, r.Max)
	}
}

func (p *Point) lateRatio(contestant string) string {
	if !p.Ratio("p50_" + contestant).Has() {
		return ""
	}
	return fmt.Sprintf("%.2f, %.2f, %.2f", p.Ratio("p50_"+contestant).Value, p.Ratio("p99_"+contestant).Value, p.Ratio("p999_"+contestant).Value)
}

// cell formats a figure for a table.
func (c *column) cell(r Row) string {
	switch {
	case !r.Has():
		return "–"
	case c.format == "":
		return Short(r.Value)
	case c.format == minAndMax:
		return Short(r.Min) + " – " + Short(r.Max)
	}
	return fmt.Sprintf(c.format, c.scale*r.Value)
}

// Table returns the figures of all contestants, with more columns for a page.
func (r *Result) Table(page bool) (t Table) {
	if r.Scenario == "idle" {
		return r.idleTable()
	}
	k, ok := kinds[r.Scenario]
	if !ok {
		k = full
	}
	t.Columns = []string{k.head}
	if r.isSweep() {
		t.Columns = []string{"at", "contestant"}
	}
	shown := slices.DeleteFunc(slices.Clone(k.metrics), func(m metric) bool { return m.head == "" || m.page && !page })
	for _, m := range shown {
		t.Columns = append(t.Columns, m.head)
	}
	t.Columns = append(t.Columns, k.ratio)
	for i := range r.Points {
		p := &r.Points[i]
		for _, contestant := range p.Keys() {
			row := []string{contestant}
			if r.isSweep() {
				row = []string{lossName(p.Settings.Loss), contestant}
			}
			for _, m := range shown {
				row = append(row, m.cell(p.Row(contestant, m.key)))
			}
			t.Rows = append(t.Rows, append(row, k.ours(p, contestant)))
		}
	}
	return t
}

// idleTable has a row for each side.
func (r *Result) idleTable() Table {
	t := Table{Columns: []string{"", "CPU % of a core", "sleeps/s", "RSS MiB"}}
	p, sides := r.Contest(), [][2]string{{"publisher", "publisher"}, {"subscriber", "subscriber"}}
	if r.Settings.InProcess() {
		sides = [][2]string{{"publisher", "all in one process"}}
	}
	for _, side := range sides {
		t.Rows = append(t.Rows, []string{side[1], fmt.Sprintf("%.2f", p.Value("", side[0]+"_cpu_percent")),
			fmt.Sprintf("%.0f", p.Value("", side[0]+"_sleeps_per_s")), fmt.Sprintf("%.1f", p.Value("", side[0]+"_rss_bytes")/mebibyte)})
	}
	return t
}

// AimsTable lists the aims, with their commands for a page.
func (r *Result) AimsTable(page bool) Table {
	t := Table{Columns: []string{"", "aim", "measured", "baseline", ""}}
	if page {
		t.Columns = append(t.Columns, "command")
	}
	for _, a := range r.Aims {
		wanted := "at least "
		if a.Max {
			wanted = "at most "
		}
		row := []string{a.Name, wanted + withUnit(a.Want, a.Unit), withUnit(a.Seen, a.Unit), a.Baseline, verdict(a.Met)}
		if page {
			row = append(row, a.Command)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// verdict is the word for a met or missed aim.
func verdict(met bool) string {
	if met {
		return "PASS"
	}
	return "MISSED"
}
