package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Write writes a result as text, or as one JSON object.
func Write(w io.Writer, result *Result, asJSON bool) error {
	if asJSON {
		return encode(w, result)
	}
	var b strings.Builder
	for i, r := range result.Results() {
		if i > 0 {
			b.WriteByte('\n')
		}
		r.text(&b)
	}
	if result.isSuite() {
		if result.Aims != nil {
			b.WriteByte('\n')
			result.AimsTable(false).text(&b, 0)
		}
		if result.Incomplete != "" {
			fmt.Fprintf(&b, "\nThe suite is incomplete: %s.\n", result.Incomplete)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) text(w io.Writer) {
	h := &r.Host
	fmt.Fprintf(w, "%s: %s\n", r.Scenario, r.Lead())
	fmt.Fprintf(w, "%s, %d cores, %s %s, %s, %s, %s, load average before %.1f\n", h.CPU, h.Cores, h.OS, h.Kernel, h.Go, r.Settings.FabricName(), h.Date, h.Load)
	if r.Incomplete != "" {
		fmt.Fprintf(w, "incomplete: %s; results so far:\n", r.Incomplete)
	}
	r.Table(false).text(w, tabwriter.AlignRight)
	for _, text := range r.Warnings() {
		fmt.Fprintln(w, text)
	}
	for _, v := range r.Verdicts() {
		fmt.Fprintln(w, v)
	}
}

func (t Table) text(w io.Writer, flags uint) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', flags)
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t")+"\t")
	}
	tw.Flush() // fails only if w does, and a strings.Builder does not
}

// Lead describes the measurement.
func (r *Result) Lead() string {
	s := &r.Settings
	runs := fmt.Sprintf("runs: %d of %g s", s.Runs, s.Seconds)
	if r.Incomplete != "" {
		runs += " requested"
	}
	audience := "subscriber processes"
	if s.InProcess() {
		audience = "subscribers in one process"
	}
	audience += fmt.Sprintf(": %d", s.Subs)
	if s.Split {
		audience += " that share the topics"
	}
	if r.Scenario == "idle" {
		return fmt.Sprintf("no traffic, %s, %s", audience, runs)
	}
	if shape := s.shapeText(); shape != "" {
		audience += ", " + shape
	}
	switch r.Scenario {
	case "throughput":
		return fmt.Sprintf("%d bytes, MTU %d, %s, loss %g %%, %s", s.Size, s.MTU, audience, 100*s.Loss, runs)
	case "latency":
		return fmt.Sprintf("%d bytes, %s messages/s, %s, wait %s, loss %g %%, %s", s.Size, Short(s.Rate), audience, s.Wait, 100*s.Loss, runs)
	case "request":
		waits := "the first reply"
		if s.AllReplies {
			waits = "all replies"
		}
		return fmt.Sprintf("%d requests of %d bytes from %d goroutines to %d responders, until %s, loss %g %%, runs: %d",
			s.Requests, s.Size, s.Goroutines, s.Subs, waits, 100*s.Loss, s.Runs)
	}
	return fmt.Sprintf("%d points, %s each", len(r.Points), runs)
}

// Short formats a number with three digits and K, M or G.
func Short(x float64) string {
	for _, unit := range []struct {
		by   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if x >= unit.by {
			return fmt.Sprintf("%.3g%s", x/unit.by, unit.name)
		}
	}
	return fmt.Sprintf("%.3g", x)
}
