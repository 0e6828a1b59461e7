package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Table is figures for people.
type Table struct {
	Columns []string
	Rows    [][]string
}

// kind is what a scenario measures in each of its contests, and how tables have it.
type kind struct {
	load    worker.Load
	metrics []metric
	head    string // of the column that names contestants
	ratio   string // of the last column, which has what ours is of a contestant
	ours    func(p *Point, who string) string
}

var (
	full  = kind{worker.LoadFull, fullMetrics, "", "ours is", (*Point).OursIs}
	kinds = map[string]kind{
		"throughput": full,
		"loss":       full,
		"latency":    {worker.LoadPaced, lateMetrics, "late, µs", "ours is, p50, p99, p99.9", (*Point).lateRatio},
		"request":    {worker.LoadRequest, requestMetrics, "answered after, µs", "ours is, p50, p99, p99.9", (*Point).lateRatio},
		"idle":       {load: worker.LoadIdle, metrics: idleMetrics},
	}
)

// OursIs is a contestant's ratio for people: what ours is of it, or what it is of what its ratio is to.
func (p *Point) OursIs(who string) string {
	r, note := p.Ratio(who), ratioOf(who).note
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

func (p *Point) lateRatio(who string) string {
	if !p.Ratio("p50_" + who).Has() {
		return ""
	}
	return fmt.Sprintf("%.2f, %.2f, %.2f", p.Ratio("p50_"+who).Value, p.Ratio("p99_"+who).Value, p.Ratio("p999_"+who).Value)
}

// cell is a figure of a table.
func (c *column) cell(r Row) string {
	switch {
	case !r.Has():
		return "–"
	case c.format == "":
		return Short(r.Value)
	case c.format == leastAndMost:
		return Short(r.Min) + " – " + Short(r.Max)
	}
	return fmt.Sprintf(c.format, c.scale*r.Value)
}

// Table is the figures of all contestants for people, with all columns for a page.
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
		t.Columns = []string{"at", "who"}
	}
	shown := slices.DeleteFunc(slices.Clone(k.metrics), func(m metric) bool { return m.head == "" || m.page && !page })
	for _, m := range shown {
		t.Columns = append(t.Columns, m.head)
	}
	t.Columns = append(t.Columns, k.ratio)
	for i := range r.Points {
		p := &r.Points[i]
		for _, who := range p.Keys() {
			row := []string{who}
			if r.isSweep() {
				row = []string{lossName(p.Settings.Loss), who}
			}
			for _, m := range shown {
				row = append(row, m.cell(p.Row(who, m.key)))
			}
			t.Rows = append(t.Rows, append(row, k.ours(p, who)))
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

// AimsTable is what was aimed at, with the commands for a page.
func (r *Result) AimsTable(page bool) Table {
	t := Table{Columns: []string{"", "aim", "seen", "beside", ""}}
	if page {
		t.Columns = append(t.Columns, "by itself")
	}
	for _, a := range r.Aims {
		wanted := "at least "
		if a.Most {
			wanted = "at most "
		}
		row := []string{a.Name, wanted + withUnit(a.Want, a.Unit), withUnit(a.Seen, a.Unit), a.Beside, verdict(a.Met)}
		if page {
			row = append(row, a.Command)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// verdict is the word for what is met, or is not.
func verdict(met bool) string {
	if met {
		return "PASS"
	}
	return "MISSED"
}
