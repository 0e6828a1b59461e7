// Package report writes results of package bench as one HTML page that needs
// nothing else: what draws its charts is in it.
package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/uplot"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// content is what the page shows.
type content struct {
	Title  string
	Head   bench.Head
	Fabric string
	// Sockets: what leaves the process has buffers.
	Sockets bool
	// Incomplete is why there is not more.
	Incomplete string
	Sections   []section
	JSON       string
	Style      template.CSS // of charts
	Scripts    []template.JS
	Allowed    string // the scripts that a browser is to run
}

// section is one scenario.
type section struct {
	Title, Lead string
	Doubts      []string // of the host meanwhile, and of baselines
	Verdicts    []string
	Facts       []fact
	Bars        []bar
	Charts      []*chart
	Table       table
}

// fact is a figure that should be seen first.
type fact struct{ Value, What string }

// bar is a length that can be compared with the others.
type bar struct {
	Name, Value, Note string
	Percent           float64 // of the longest
	Ours              bool
}

type table struct {
	Open    bool // at first
	Columns []string
	Rows    [][]string
}

// Write writes the page for a result of bench.Bench.Run.
func Write(w io.Writer, result bench.Result) error {
	c := content{Title: "Fanfare, measured", Style: template.CSS(uplot.Style), Scripts: scripts, Allowed: allowed}
	raw, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	c.JSON = string(raw)
	for _, r := range bench.Results(result) {
		s, head, err := sectionOf(r)
		if err != nil {
			return err
		}
		s.Doubts = append(head.Host.Doubts(), s.Doubts...)
		c.Sections = append(c.Sections, s)
		c.Head = head
	}
	if suite, ok := result.(*bench.Suite); ok {
		c.Head = suite.Head
		if len(suite.Aims) > 0 {
			c.Sections = append([]section{aimsSection(suite)}, c.Sections...)
		}
	}
	c.Incomplete = c.Head.Incomplete
	c.Fabric, c.Sockets = c.Head.Settings.FabricName(), !c.Head.Settings.InProcess()
	return page.Execute(w, c)
}

func sectionOf(result bench.Result) (section, bench.Head, error) {
	var s section
	var head bench.Head
	switch r := result.(type) {
	case *bench.Throughput:
		s, head = throughputSection(r), r.Head
	case *bench.Latency:
		s, head = latencySection(r), r.Head
	case *bench.Sweep:
		s, head = sweepSection(r), r.Head
	case *bench.Idle:
		s, head = idleSection(r), r.Head
	default:
		return s, head, fmt.Errorf("report: no section for a %T", result)
	}
	return s, head, nil
}

func throughputSection(t *bench.Throughput) section {
	set := &t.Settings
	s := section{
		Title: fmt.Sprintf("Throughput, %d-byte messages", set.Size),
		Lead: fmt.Sprintf("Datagrams of %d bytes, %s%g %% loss, %s. Rates are those of the slowest subscriber.",
			set.MTU, set.Cast(), 100*set.Loss, t.Duration()),
	}
	most := 0.0
	for _, r := range t.Rates {
		most = max(most, r.MsgsPerS.Median)
	}
	s.Table.Columns = []string{"", "messages/s", "min – max", "MB/s", "messages a packet", "messages a train", "CPU s per million", "lost", "allocations a message", "longest GC pause, µs",
		"publisher, MiB", "of it Go's heap", "subscriber, MiB"}
	for _, key := range bench.Keys(t.Rates) {
		r := t.Rates[key]
		note := ""
		if x, ok := t.Ratios[key]; ok && key != "metrics" {
			note = fmt.Sprintf("ours is %s of it", ratio(x.Median))
		} else if ok {
			note = fmt.Sprintf("%s of ours", ratio(x.Median))
		}
		b := bar{Name: key, Value: short(r.MsgsPerS.Median) + "/s", Note: note, Ours: bench.IsOurs(key)}
		if most > 0 {
			b.Percent = 100 * r.MsgsPerS.Median / most
		}
		s.Bars = append(s.Bars, b)
		s.Table.Rows = append(s.Table.Rows, []string{
			key, short(r.MsgsPerS.Median), short(r.MsgsPerS.Min) + " – " + short(r.MsgsPerS.Max), fmt.Sprintf("%.0f", r.BytesPerS.Median/1e6),
			bench.Mean(r.MsgsPerPacket), bench.Mean(r.MsgsPerTrain), fmt.Sprintf("%.3g", r.CPUPerMmsg.Median), fmt.Sprint(r.Lost), fmt.Sprintf("%.3g", r.AllocsPerMsg), fmt.Sprintf("%.0f", r.GCPauseMaxUs),
			mebibytes(r.PublisherRSS), mebibytes(r.PublisherHeap), mebibytes(r.SubscriberRSS),
		})
	}
	if doubt := t.Doubt(); doubt != "" {
		s.Doubts = append(s.Doubts, doubt)
	}
	for _, v := range t.Verdicts() {
		s.Verdicts = append(s.Verdicts, v.String())
	}
	if r := t.Rates[ours]; r != nil {
		s.Facts = []fact{{short(r.MsgsPerS.Median), "messages a second"}, {short(r.BytesPerS.Median) + "B", "payload a second"}}
		for _, key := range []string{"one", "raw", "naive", "channel", "udp"} {
			if x, ok := t.Ratios[key]; ok {
				s.Facts = append(s.Facts, fact{ratio(x.Median), "of " + key})
			}
		}
	}
	return s
}

func ratio(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f×", x)
	}
	return fmt.Sprintf("%.2f×", x)
}

// mebibytes is a dash where the size is not known: of sides that share their process.
func mebibytes(n uint64) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", float64(n)/(1<<20))
}

func latencySection(l *bench.Latency) section {
	set := &l.Settings
	s := section{Title: "Latency"}
	load := fmt.Sprintf("%s messages a second", short(set.Rate))
	if l.Bursts != nil {
		s.Title = "Bursts"
		load = fmt.Sprintf("bursts of %d messages every %v", set.Burst, set.Every)
	}
	if set.Loss > 0 {
		s.Title += fmt.Sprintf(", %g %% loss", 100*set.Loss)
	}
	s.Lead = fmt.Sprintf("%d-byte messages, %s, %sopen loop: time counts from when a message was due. Subscribers wait %s.", set.Size, load, set.Cast(), waiting(set))
	if doubt := l.Doubt(); doubt != "" {
		s.Doubts = append(s.Doubts, doubt)
	}
	s.Charts = []*chart{percentileChart(s.Title, l.By)}
	s.Table.Columns = []string{"µs", "p50", "p90", "p99", "p99.9", "max", "lost", "CPU, % of a core"}
	for _, key := range bench.Keys(l.By) {
		s.Table.Rows = append(s.Table.Rows, percentileRow(key, l.By[key]))
	}
	if l.Bursts != nil {
		s.Charts = append(s.Charts, percentileChart("Whole bursts", l.Bursts))
		for _, key := range bench.Keys(l.Bursts) {
			s.Table.Rows = append(s.Table.Rows, percentileRow(key+", whole bursts", l.Bursts[key]))
		}
	}
	if p := l.By[ours]; p != nil {
		s.Facts = []fact{{micros(p.P50), "p50"}, {micros(p.P99), "p99"}, {micros(p.P999), "p99.9"}}
	}
	return s
}

func waiting(s *bench.Settings) string {
	switch s.Wait {
	case worker.WaitSpin:
		return "spinning"
	case worker.WaitPark:
		return "asleep"
	}
	return "as the bus does by itself"
}

func percentileRow(key string, p *bench.Percentiles) []string {
	f := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	return []string{key, f(p.P50), f(p.P90), f(p.P99), f(p.P999), f(p.Max), fmt.Sprint(p.Lost), fmt.Sprintf("%.0f", p.CPUPercent.Median)}
}

func micros(x float64) string {
	if x >= 10000 {
		return fmt.Sprintf("%.1f ms", x/1000)
	}
	return fmt.Sprintf("%.0f µs", x)
}

func sweepSection(sw *bench.Sweep) section {
	var s section
	switch sw.Scenario {
	case "sizes":
		s.Title, s.Charts = "Throughput by size", sizeCharts(sw)
		s.Table.Columns = []string{"MTU", "size"}
	case "fanout":
		s.Title, s.Charts = "Fan-out", fanoutCharts(sw)
		s.Table.Columns = []string{"subscribers", "as"}
	default:
		s.Title, s.Charts = "Loss", []*chart{lossChart(sw)}
		s.Table.Columns = []string{"loss"}
	}
	s.Lead = fmt.Sprintf("For each point %s.", sw.Duration())
	if doubt := sw.Doubt(); doubt != "" {
		s.Doubts = append(s.Doubts, doubt)
	}
	s.Table.Columns = append(s.Table.Columns, "who", "messages/s", "min – max", "MB/s", "publisher, ns a message: own code", "kernel", "lost")
	for _, p := range sw.Points {
		for _, key := range bench.Keys(p.Rates) {
			r := p.Rates[key]
			var row []string
			switch sw.Scenario {
			case "sizes":
				row = []string{fmt.Sprint(p.MTU), fmt.Sprint(p.Size)}
			case "fanout":
				row = []string{fmt.Sprint(p.Subs), place(p.Together)}
			default:
				row = []string{fmt.Sprintf("%g %%", 100*p.Loss)}
			}
			s.Table.Rows = append(s.Table.Rows, append(row, key, short(r.MsgsPerS.Median), short(r.MsgsPerS.Min)+" – "+short(r.MsgsPerS.Max),
				fmt.Sprintf("%.0f", r.BytesPerS.Median/1e6), fmt.Sprintf("%.1f", r.PublisherUser.Median*1e3), fmt.Sprintf("%.1f", r.PublisherSystem.Median*1e3), fmt.Sprint(r.Lost)))
		}
	}
	return s
}

func idleSection(d *bench.Idle) section {
	s := section{
		Title: "Idle", Lead: fmt.Sprintf("A publisher and %s that have nothing to do, %s.", d.Settings.Audience(), d.Duration()),
		Table: table{Columns: []string{"", "CPU, % of a core", "sleeps a second", "RSS, MiB"}},
	}
	side := func(name string, cpu, sleeps bench.Spread, rss uint64) {
		percent := fmt.Sprintf("%.2f", cpu.Median)
		s.Facts = append(s.Facts, fact{percent + " %", "of a core: " + name})
		s.Table.Rows = append(s.Table.Rows, []string{name, percent, fmt.Sprintf("%.0f", sleeps.Median), mebibytes(rss)})
	}
	if d.Settings.InProcess() {
		side("all in one process", d.PublisherCPU, d.PublisherSleeps, d.PublisherRSS)
		return s
	}
	side("publisher", d.PublisherCPU, d.PublisherSleeps, d.PublisherRSS)
	side("subscriber", d.SubscriberCPU, d.SubscriberSleeps, d.SubscriberRSS)
	return s
}

func aimsSection(suite *bench.Suite) section {
	s := section{
		Title: "Aims", Lead: "What Fanfare is to reach, what it reached, and what the machine can do by a baseline of the same run.",
		Facts: []fact{{fmt.Sprintf("%d of %d", len(suite.Aims)-len(suite.Missed()), len(suite.Aims)), "reached"}},
		Table: table{Columns: []string{"", "aim", "seen", "beside", "", "by itself"}, Open: true},
	}
	for i := range suite.Aims {
		a := &suite.Aims[i]
		s.Table.Rows = append(s.Table.Rows, []string{a.Name, a.Wanted(), a.Figure(), a.Beside, a.Verdict(), a.Command})
	}
	return s
}

// place is what subscribers are.
func place(together bool) string {
	if together {
		return "goroutines"
	}
	return "processes"
}
