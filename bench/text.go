package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// variants are the keys of Fanfare's contestants over the transport that was set.
var variants = []string{keyOurs, string(worker.PublisherShared), keyOne, "lossless", "metrics"}

// IsOurs reports whether a contestant is Fanfare over the transport that was set.
func IsOurs(key string) bool { return slices.Contains(variants, key) }

// Keys are the contestants' names of a result: ours first, its variants, then
// what it is compared with.
func Keys[T any](by map[string]T) []string {
	order := append(slices.Clone(variants), "raw", "naive", "channel", contenders.UDP)
	rank := func(key string) int {
		if i := slices.Index(order, key); i >= 0 {
			return i
		}
		return len(order)
	}
	return slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// WriteText writes a result for people.
func WriteText(w io.Writer, result Result) error {
	for i, r := range Results(result) {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		switch r := r.(type) {
		case *Throughput:
			r.text(tw)
		case *Latency:
			r.text(tw)
		case *Sweep:
			r.text(tw)
		case *Idle:
			r.text(tw)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	s, ok := result.(*Suite)
	if !ok {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if s.Aims != nil {
		fmt.Fprintln(tw)
		s.aimsText(tw)
	}
	if s.Incomplete != "" {
		fmt.Fprintf(tw, "\nThe suite is incomplete: %s.\n", s.Incomplete)
	}
	return tw.Flush()
}

func (h *Head) title(w io.Writer, what string) {
	s := &h.Settings
	fmt.Fprintf(w, "%s: %s\n", h.Scenario, what)
	fmt.Fprintf(w, "%s, %d cores, %s %s, %s, %s, %s, load before %.1f\n", h.Host.CPU, h.Host.Cores, h.Host.OS, h.Host.Kernel, h.Host.Go, s.FabricName(), h.Host.Date, h.Host.Load)
	if h.Incomplete != "" {
		fmt.Fprintf(w, "incomplete: %s; this was measured before\n", h.Incomplete)
	}
	for _, text := range h.Host.Doubts() {
		fmt.Fprintln(w, text)
	}
}

// Duration says how long each contender was to be measured.
func (h *Head) Duration() string {
	s, asked := &h.Settings, ""
	if h.Incomplete != "" {
		asked = " asked for"
	}
	if s.Runs == 1 {
		return fmt.Sprintf("one run of %g s%s", s.Seconds, asked)
	}
	return fmt.Sprintf("%d runs of %g s%s", s.Runs, s.Seconds, asked)
}

func (t *Throughput) text(w io.Writer) {
	s := &t.Settings
	t.title(w, fmt.Sprintf("%d bytes, MTU %d, %sloss %g %%, %s", s.Size, s.MTU, s.Cast(), 100*s.Loss, t.Duration()))
	fmt.Fprint(w, "\tmsgs/s\tmin\tmax\tMB/s\tmsgs/packet\tmsgs/train\tCPU s/M\tlost\tallocs/msg\tours is\t\n")
	for _, key := range Keys(t.Rates) {
		r := t.Rates[key]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f\t%s\t%s\t%.3g\t%d\t%.3g\t%s\t\n", key, Short(r.MsgsPerS.Median), Short(r.MsgsPerS.Min), Short(r.MsgsPerS.Max),
			r.BytesPerS.Median/1e6, Mean(r.MsgsPerPacket), Mean(r.MsgsPerTrain), r.CPUPerMmsg.Median, r.Lost, r.AllocsPerMsg, t.ratioText(key))
	}
	if text := t.Doubt(); text != "" {
		fmt.Fprintln(w, text)
	}
	for _, v := range t.Verdicts() {
		fmt.Fprintln(w, v)
	}
}

// muchLost is the share of messages that a baseline may lose without its rate
// being in doubt.
const muchLost = 0.02

// Doubt says why the raw baseline's rate, and so the ratio to it, should not be
// trusted; it is empty if there is no reason.
func (t *Throughput) Doubt() string {
	r := t.Rates["raw"]
	if r == nil || r.LostShare <= muchLost {
		return ""
	}
	return fmt.Sprintf("raw published %s messages/s and lost %.0f %% of them: its receiver did not keep up, as when other programs use the cores; measure again",
		Short(r.PublishedPerS.Median), 100*r.LostShare)
}

// Doubt names the points at which the raw baseline's rate should not be trusted; it is
// empty if there is none.
func (s *Sweep) Doubt() string {
	var at []string
	for _, p := range s.Points {
		if p.Doubt() != "" {
			set := p.Settings
			at = append(at, pointName(s.Scenario, &set))
		}
	}
	if len(at) == 0 {
		return ""
	}
	return fmt.Sprintf("raw lost more than %.0f %% of what it published, since its receiver did not keep up, at: %s; ratios to it there say little", 100*muchLost, strings.Join(at, ", "))
}

// Doubt says why the raw baseline's percentiles, and so the ratios to them, should not be
// trusted; it is empty if there is no reason.
func (l *Latency) Doubt() string {
	r := l.By["raw"]
	if r == nil || r.LostShare <= muchLost {
		return ""
	}
	return fmt.Sprintf("raw lost %.0f %% of its messages, which do not count as late: it is better here than it was; measure again, at a lower rate", 100*r.LostShare)
}

func (t *Throughput) ratioText(key string) string {
	r, ok := t.Ratios[key]
	switch {
	case !ok:
		return ""
	case key == "metrics":
		return fmt.Sprintf("(%.2f of ours)", r.Median)
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", r.Median, r.Min, r.Max)
}

// Mean writes the median of runs' means, and a dash where it is not known.
func Mean(of Spread) string {
	if of.Max == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", of.Median)
}

// Cast says who publishes and subscribes, and on what, with a comma at its end.
func (s *Settings) Cast() string {
	text := s.Audience() + ", "
	if shape := s.Shape.text(); shape != "" {
		text += shape + ", "
	}
	return text
}

// Audience says who subscribes.
func (s *Settings) Audience() string {
	text := fmt.Sprintf("%d subscriber processes", s.Subs)
	switch {
	case s.Subs == 1:
		return "one subscriber"
	case s.Together || s.InProcess():
		text = fmt.Sprintf("%d subscribers in one process", s.Subs)
	}
	if s.Split {
		text += " with a share of the topics each"
	}
	return text
}

func (l *Latency) text(w io.Writer) {
	s := &l.Settings
	load := fmt.Sprintf("%s messages/s", Short(s.Rate))
	if l.Bursts != nil {
		load = fmt.Sprintf("bursts of %d every %v", s.Burst, s.Every)
	}
	l.title(w, fmt.Sprintf("%d bytes, %s, %swait %s, loss %g %%, %s", s.Size, load, s.Cast(), s.Wait, 100*s.Loss, l.Duration()))
	table := func(what string, by map[string]*Percentiles) {
		fmt.Fprintf(w, "%s, µs\tp50\tp90\tp99\tp99.9\tmax\tmsgs/s\tlost\tCPU %%\t\n", what)
		for _, key := range Keys(by) {
			p := by[key]
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%s\t%d\t%.0f\t\n", key, p.P50, p.P90, p.P99, p.P999, p.Max, Short(p.MsgsPerS.Median), p.Lost, p.CPUPercent.Median)
		}
	}
	table("late", l.By)
	if l.Bursts != nil {
		table("burst", l.Bursts)
	}
	if text := l.Doubt(); text != "" {
		fmt.Fprintln(w, text)
	}
	for _, key := range Keys(l.By) {
		if r, ok := l.Ratios["p50_"+key]; ok {
			fmt.Fprintf(w, "ours by %s: p50 %.2f, p99 %.2f, p99.9 %.2f\n", key, r.Median, l.Ratios["p99_"+key].Median, l.Ratios["p999_"+key].Median)
		}
	}
}

func (s *Sweep) text(w io.Writer) {
	s.title(w, fmt.Sprintf("%d points, %s each", len(s.Points), s.Duration()))
	fmt.Fprint(w, "\twho\tmsgs/s\tMB/s\tpublisher µs/msg user\tsystem\tsubscribers µs/msg\tlost\tours is\t\n")
	for _, p := range s.Points {
		at := p.Settings
		for _, key := range Keys(p.Rates) {
			r := p.Rates[key]
			fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%.4g\t%.4g\t%.4g\t%d\t%s\t\n", pointName(s.Scenario, &at), key, Short(r.MsgsPerS.Median), r.BytesPerS.Median/1e6,
				r.PublisherUser.Median, r.PublisherSystem.Median, r.SubscriberUser.Median+r.SubscriberSystem.Median, r.Lost, p.ratioText(key))
		}
	}
	if text := s.Doubt(); text != "" {
		fmt.Fprintln(w, text)
	}
}

func (d *Idle) text(w io.Writer) {
	d.title(w, fmt.Sprintf("no traffic, %s, %s", d.Settings.Audience(), d.Duration()))
	fmt.Fprint(w, "\tCPU % of a core\tsleeps/s\tRSS MiB\t\n")
	if d.Settings.InProcess() {
		fmt.Fprintf(w, "all in one process\t%.2f\t%.0f\t%.1f\t\n", d.PublisherCPU.Median, d.PublisherSleeps.Median, float64(d.PublisherRSS)/(1<<20))
		return
	}
	fmt.Fprintf(w, "publisher\t%.2f\t%.0f\t%.1f\t\n", d.PublisherCPU.Median, d.PublisherSleeps.Median, float64(d.PublisherRSS)/(1<<20))
	fmt.Fprintf(w, "subscriber\t%.2f\t%.0f\t%.1f\t\n", d.SubscriberCPU.Median, d.SubscriberSleeps.Median, float64(d.SubscriberRSS)/(1<<20))
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
