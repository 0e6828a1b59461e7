package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Format is how a result is written.
type Format string

// Formats.
const (
	FormatText  Format = "text"  // for people
	FormatJSON  Format = "json"  // one object in a line
	FormatBench Format = "bench" // as go test -bench writes, for benchstat
)

// Formats are all of them.
func Formats() []Format { return []Format{FormatText, FormatJSON, FormatBench} }

// Write writes a result.
func Write(w io.Writer, r *Result, as Format) error {
	switch as {
	case FormatText:
		return writeText(w, r)
	case FormatJSON:
		text, err := r.MarshalJSON()
		if err != nil {
			return err
		}
		_, err = w.Write(append(text, '\n'))
		return err
	case FormatBench:
		return writeBench(w, r)
	}
	return fmt.Errorf("a result is not written as %q: it is one of %s", as, joined(Formats()))
}

// better are the units of which more is better. Of the others less is.
var better = []string{"msgs/s", "B/s", "published-msgs/s", "msgs/packet", "msgs/train"}

// writeBench writes a line for each run of each contestant, with its figures, in the
// benchmark format of Go (https://go.dev/design/14313-benchmark-format). Settings are in
// the name: "benchstat -col /who" has the contestants side by side, and two files are
// compared line by line. Ratios are left to benchstat.
func writeBench(w io.Writer, r *Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: github.com/fanfaremq/fanfare/bench\ncpu: %s\n", r.Host.OS, r.Host.Arch, r.Host.CPU)
	seen := make(map[string]bool)
	for _, part := range r.Results() {
		for i := range part.Points {
			for _, row := range part.Points[i].Rows {
				if row.Unit == "" || seen[row.Unit] {
					continue
				}
				seen[row.Unit] = true
				direction := "lower"
				if slices.Contains(better, row.Unit) {
					direction = "higher"
				}
				fmt.Fprintf(&b, "Unit %s better=%s\n", row.Unit, direction)
			}
		}
	}
	for _, part := range r.Results() {
		for i := range part.Points {
			part.Points[i].benchLines(&b, part.Scenario, r.Host.GOMAXPROCS)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// benchLines writes the lines of a point.
func (p *Point) benchLines(b *strings.Builder, scenario string, procs int) {
	keys := p.Keys()
	if len(keys) == 0 {
		keys = []string{""} // of one contestant
	}
	name := "Benchmark" + strings.ToUpper(scenario[:1]) + scenario[1:]
	for _, who := range keys {
		var all []Row
		runs := 0
		for _, row := range p.Rows {
			if row.Who == who && row.Unit != "" {
				all = append(all, row)
				runs = max(runs, len(row.Runs))
			}
		}
		for run := range runs {
			fmt.Fprintf(b, "%s/who=%s%s-%d 1", name, cmp.Or(who, keyOurs), p.benchName(scenario), procs)
			for _, row := range all {
				if run < len(row.Runs) {
					fmt.Fprintf(b, " %g %s", row.Runs[run], row.Unit)
				}
			}
			b.WriteByte('\n')
		}
	}
}

// benchName is the settings of a point as parts of a benchmark's name.
func (p *Point) benchName(scenario string) string {
	s := &p.Settings
	name := "/transport=" + s.Transport
	add := func(when bool, key string, val any) {
		if when {
			name += fmt.Sprintf("/%s=%v", key, val)
		}
	}
	late := scenario == "latency" || scenario == "burst"
	add(p.Name != "", "of", p.Name)
	add(scenario != "idle", "size", s.Size)
	add(scenario != "idle", "mtu", s.MTU)
	add(true, "subs", s.Subs)
	add(s.Together, "together", true)
	add(s.Loss > 0 || scenario == "loss", "loss", s.Loss)
	add(scenario == "latency", "rate", s.Rate)
	add(scenario == "burst", "burst", s.Burst)
	add(scenario == "burst", "every", s.Every)
	add(late, "wait", s.Wait)
	for _, f := range s.shapeFlags() {
		add(true, strings.TrimPrefix(f.name, "-"), f.val)
	}
	return name
}
