package bench

import (
	"fmt"
	"strings"
)

// Table is figures for people.
type Table struct {
	Columns []string
	Rows    [][]string
}

// column is one of a table with a row for each contestant.
type column struct {
	head string
	page bool // there is room for it in a page only
	cell func(p *Point, who string) string
}

// figure is a column of one metric, times scale.
func figure(head, key, format string, scale float64) column {
	return column{head: head, cell: func(p *Point, who string) string { return fmt.Sprintf(format, scale*p.Value(who, key)) }}
}

func onPage(c column) column {
	c.page = true
	return c
}

const microsecond = 1e3 // seconds a million messages are microseconds each: in nanoseconds

var (
	rateColumns = []column{
		{"msgs/s", false, func(p *Point, who string) string { return Short(p.Rate(who)) }},
		{"min – max", false, func(p *Point, who string) string {
			r := p.Row(who, "msgs_per_s")
			return Short(r.Min) + " – " + Short(r.Max)
		}},
		figure("MB/s", "bytes_per_s", "%.0f", 1e-6),
	}
	lastColumns = []column{figure("lost", "lost", "%.0f", 1), {"ours is", false, (*Point).OursIs}}

	fullColumns = join(rateColumns, []column{
		{"msgs/packet", false, func(p *Point, who string) string { return mean(p.Row(who, "msgs_per_packet")) }},
		{"msgs/train", false, func(p *Point, who string) string { return mean(p.Row(who, "msgs_per_train")) }},
		figure("CPU s/M", "cpu_s_per_mmsg", "%.3g", 1),
		figure("allocs/msg", "allocs_per_msg", "%.3g", 1),
		onPage(figure("longest GC pause, µs", "gc_pause_max_us", "%.0f", 1)),
		onPage(mebibytes("publisher, MiB", "publisher_rss_bytes")),
		onPage(mebibytes("of it Go's heap", "publisher_heap_bytes")),
		onPage(mebibytes("subscriber, MiB", "subscriber_rss_bytes")),
	}, lastColumns)

	sweepColumns = join(rateColumns, []column{
		figure("publisher ns/msg: own code", "publisher_user_s_per_mmsg", "%.1f", microsecond),
		figure("kernel", "publisher_system_s_per_mmsg", "%.1f", microsecond),
		sideTime("subscribers ns/msg", "subscriber"),
	}, lastColumns)

	timeColumns = []column{
		figure("p50", "p50_us", "%.1f", 1), figure("p90", "p90_us", "%.1f", 1), figure("p99", "p99_us", "%.1f", 1),
		figure("p99.9", "p999_us", "%.1f", 1), figure("max", "max_us", "%.1f", 1),
	}
	ratioColumn = column{"ours is, p50, p99, p99.9", false, func(p *Point, who string) string {
		if !p.Ratio("p50_" + who).Has() {
			return ""
		}
		return fmt.Sprintf("%.2f, %.2f, %.2f", p.Ratio("p50_"+who).Value, p.Ratio("p99_"+who).Value, p.Ratio("p999_"+who).Value)
	}}
	lateColumns = join(timeColumns, []column{
		{"msgs/s", false, func(p *Point, who string) string { return Short(p.Rate(who)) }},
		figure("lost", "lost", "%.0f", 1), figure("CPU %", "cpu_percent", "%.0f", 1),
		ratioColumn,
	})
	requestColumns = join(timeColumns, []column{
		figure("requests/s", "requests_per_s", "%.0f", 1), figure("answered", "answered", "%.0f", 1), figure("replies", "replies", "%.0f", 1),
		figure("executed", "executed", "%.0f", 1), figure("CPU %", "cpu_percent", "%.0f", 1), ratioColumn,
	})
)

// sideTime is a column of the processor time that a side takes for a message, in nanoseconds.
func sideTime(head, side string) column {
	return column{head: head, cell: func(p *Point, who string) string {
		return fmt.Sprintf("%.1f", microsecond*(p.Value(who, side+"_user_s_per_mmsg")+p.Value(who, side+"_system_s_per_mmsg")))
	}}
}

func join(lists ...[]column) (all []column) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// mebibytes is a dash where the size is not known: of sides that share their process.
func mebibytes(head, key string) column {
	return column{head: head, cell: func(p *Point, who string) string {
		if n := p.Value(who, key); n > 0 {
			return fmt.Sprintf("%.0f", n/mebibyte)
		}
		return "–"
	}}
}

// mean writes the median of runs' means, and a dash where it is not known.
func mean(r Row) string {
	if !r.Has() {
		return "–"
	}
	return fmt.Sprintf("%.1f", r.Value)
}

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

// Tables are the figures for people, with all columns for a page.
func (r *Result) Tables(page bool) []Table {
	switch {
	case r.Scenario == "idle":
		return []Table{r.idleTable()}
	case r.isSweep():
		t := tableOf("at", sweepColumns, page)
		t.Columns = append([]string{"at", "who"}, t.Columns[1:]...)
		for i := range r.Points {
			p := &r.Points[i]
			for _, row := range p.cells(sweepColumns, page) {
				t.Rows = append(t.Rows, append([]string{lossName(p.Settings.Loss)}, row...))
			}
		}
		return []Table{t}
	}
	var all []Table
	for i := range r.Points {
		p := &r.Points[i]
		head, columns := "", fullColumns
		switch r.Scenario {
		case "latency":
			head, columns = "late, µs", lateColumns
		case "request":
			head, columns = "answered after, µs", requestColumns
		}
		t := tableOf(head, columns, page)
		t.Rows = p.cells(columns, page)
		all = append(all, t)
	}
	return all
}

func tableOf(first string, columns []column, page bool) Table {
	t := Table{Columns: []string{first}}
	for _, c := range columns {
		if page || !c.page {
			t.Columns = append(t.Columns, c.head)
		}
	}
	return t
}

// cells are a row for each contestant.
func (p *Point) cells(columns []column, page bool) (rows [][]string) {
	for _, who := range p.Keys() {
		row := []string{who}
		for _, c := range columns {
			if page || !c.page {
				row = append(row, c.cell(p, who))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// idleTable has a row for each side.
func (r *Result) idleTable() Table {
	t := Table{Columns: []string{"", "CPU % of a core", "sleeps/s", "RSS MiB"}}
	p, sides := r.Contest(), []string{"publisher", "subscriber"}
	if r.Settings.InProcess() {
		sides = sides[:1]
	}
	for _, side := range sides {
		name := side
		if r.Settings.InProcess() {
			name = "all in one process"
		}
		t.Rows = append(t.Rows, []string{name, fmt.Sprintf("%.2f", p.Value("", side+"_cpu_percent")), fmt.Sprintf("%.0f", p.Value("", side+"_sleeps_per_s")),
			fmt.Sprintf("%.1f", p.Value("", side+"_rss_bytes")/mebibyte)})
	}
	return t
}

// AimsTable is what was aimed at, with the commands for a page.
func (r *Result) AimsTable(page bool) Table {
	t := Table{Columns: []string{"", "aim", "seen", "beside", ""}}
	if page {
		t.Columns = append(t.Columns, "by itself")
	}
	for i := range r.Aims {
		a := &r.Aims[i]
		row := []string{a.Name, a.Wanted(), a.Figure(), a.Beside, a.Verdict()}
		if page {
			row = append(row, a.Command)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
