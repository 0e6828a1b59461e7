package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Write writes a result for people, or as one JSON object.
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
	fmt.Fprintf(w, "%s, %d cores, %s %s, %s, %s, %s, load before %.1f\n", h.CPU, h.Cores, h.OS, h.Kernel, h.Go, r.Settings.FabricName(), h.Date, h.Load)
	if r.Incomplete != "" {
		fmt.Fprintf(w, "incomplete: %s; this was measured before\n", r.Incomplete)
	}
	r.Table(false).text(w, tabwriter.AlignRight)
	for _, text := range r.Doubts() {
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
	tw.Flush() // whose errors are w's: a string has none
}

// Lead says what was measured.
func (r *Result) Lead() string {
	s := &r.Settings
	loss := fmt.Sprintf("loss %g %%, %s", 100*s.Loss, r.duration())
	switch r.Scenario {
	case "throughput":
		return fmt.Sprintf("%d bytes, MTU %d, %s%s", s.Size, s.MTU, s.cast(), loss)
	case "latency":
		return fmt.Sprintf("%d bytes, %s messages/s, %swait %s, %s", s.Size, Short(s.Rate), s.cast(), s.Wait, loss)
	case "request":
		waits := "the first reply"
		if s.AllReplies {
			waits = "all replies"
		}
		return fmt.Sprintf("%d requests of %d bytes from %d goroutines to %d responders, until %s, loss %g %%, runs: %d", s.Requests, s.Size, s.Goroutines, s.Subs, waits, 100*s.Loss, s.Runs)
	case "idle":
		return fmt.Sprintf("no traffic, %s, %s", s.audience(), r.duration())
	}
	return fmt.Sprintf("%d points, %s each", len(r.Points), r.duration())
}

// duration says how long each contender was to be measured.
func (h *Head) duration() string {
	text := fmt.Sprintf("runs: %d of %g s", h.Settings.Runs, h.Settings.Seconds)
	if h.Incomplete != "" {
		text += " asked for"
	}
	return text
}

// cast says who publishes and subscribes, and on what, with a comma at its end.
func (s *Settings) cast() string {
	text := s.audience() + ", "
	if shape := s.shapeText(); shape != "" {
		text += shape + ", "
	}
	return text
}

// audience says how many subscribe.
func (s *Settings) audience() string {
	text := fmt.Sprintf("subscriber processes: %d", s.Subs)
	if s.InProcess() {
		text = fmt.Sprintf("subscribers in one process: %d", s.Subs)
	}
	if s.Split {
		text += " with a share of the topics each"
	}
	return text
}

// Short writes a number with three digits and K, M or G.
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
