package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
)

// Result is the result of a scenario. It marshals to one JSON object.
type Result struct {
	Scenario string
	Host     Host
	Settings Settings
	// Incomplete is the reason why the measurement ended early, otherwise empty. The result then
	// contains what was measured before, possibly of fewer runs.
	Incomplete string
	// Points are one contest, or in scenario loss one at each share.
	Points []Point
	// Parts are the results of scenario aims in order, and Aims their evaluation; nil in other scenarios.
	Parts []*Result
	Aims  []Aim
}

// Point is a contest with certain settings.
type Point struct {
	Settings Settings
	Rows     []Row
	// Details by contestant.
	Details map[string]Detail
}

// Row is a figure of a contestant over its runs.
type Row struct {
	Contestant string // its key; empty for ratios, and if there is only one
	Metric     string // the figure's key in JSON
	Value      float64
	Spread               // over the runs
	Runs       []float64 // of the runs that have the figure, in order

	form form
}

// form is how a row's value is computed from its runs, and its form in JSON.
type form int

const (
	asSpread   form = iota // the median; an object with min, median and max
	asQuantile             // the median; in JSON a number, and in "spread" the object
	asPeak                 // the maximum; in JSON like quantile
	asRatio                // the median; in JSON a number, and in KEY_spread the object
	asMax                  // the maximum; in JSON a number, as for all following
	asMean
	asSum
)

func newRow(contestant, metric string, f form, runs []float64) Row {
	r := Row{Contestant: contestant, Metric: metric, Spread: spreadOf(runs), Runs: runs, form: f}
	total := 0.0
	for _, x := range runs {
		total += x
	}
	switch f {
	case asPeak, asMax:
		r.Value = r.Max
	case asSum:
		r.Value = total
	case asMean:
		r.Value = total / float64(max(len(runs), 1))
	default:
		r.Value = r.Median
	}
	return r
}

// Detail holds data of a contestant that are not figures.
type Detail struct {
	// Curve is the delay of messages, of all runs together.
	Curve []CurvePoint
	// The contender's counters in the last run, of the publisher and the first subscriber.
	Publisher, Subscriber map[string]float64
}

// CurvePoint is a point of a percentile curve.
type CurvePoint struct {
	Percentile float64 `json:"percentile"`
	Us         float64 `json:"us"`
}

// Row returns a contestant's figure; zero without runs if it was not measured.
func (p *Point) Row(contestant, metric string) Row {
	i := slices.IndexFunc(p.Rows, func(r Row) bool { return r.Contestant == contestant && r.Metric == metric })
	if i < 0 {
		return Row{Contestant: contestant, Metric: metric}
	}
	return p.Rows[i]
}

// Value returns the value of a contestant's figure, 0 if it was not measured.
func (p *Point) Value(contestant, metric string) float64 { return p.Row(contestant, metric).Value }

// Rate returns the messages a second of a contestant's slowest subscriber.
func (p *Point) Rate(contestant string) float64 { return p.Value(contestant, "msgs_per_s") }

// Ratio returns a ratio by its name. Under full load the name is a contestant's key (contestant.of
// and by define the division, otherwise it is ours by the contestant), or batches_BASELINE. In
// latency "p50_raw" is ours by raw, below 1 if ours is faster. Neighbouring runs are divided.
func (p *Point) Ratio(name string) Row { return p.Row("", "ratio_"+name) }

// Has reports whether a row was measured.
func (r Row) Has() bool { return len(r.Runs) > 0 }

// Keys returns the point's contestants: ours first, its variants, then the others.
func (p *Point) Keys() (keys []string) {
	for _, r := range p.Rows {
		if r.Contestant != "" && !slices.Contains(keys, r.Contestant) {
			keys = append(keys, r.Contestant)
		}
	}
	return keys
}

// Results returns the separate results in a result.
func (r *Result) Results() []*Result {
	if r.isSuite() {
		return r.Parts
	}
	return []*Result{r}
}

func (r *Result) isSuite() bool { return r.Scenario == "aims" }

// isSweep reports whether the points have different settings.
func (r *Result) isSweep() bool { return r.Scenario == "loss" }

// Contest returns the point of a result that has only one.
func (r *Result) Contest() *Point {
	if len(r.Points) == 0 {
		return &Point{}
	}
	return &r.Points[0]
}

// Lost is the number of messages that Fanfare's subscribers lost permanently, in the whole result.
func (r *Result) Lost() (n uint64) {
	for _, part := range r.Results() {
		for i := range part.Points {
			for _, row := range part.Points[i].Rows {
				if row.Metric == "lost" && isFanfare(row.Contestant) {
					n += uint64(row.Value)
				}
			}
		}
	}
	return n
}

// MarshalJSON writes header and contestants into one object, with ratios as ratio_NAME and
// ratio_NAME_spread; points and parts are lists.
func (r *Result) MarshalJSON() ([]byte, error) {
	m := make(map[string]any)
	switch {
	case r.isSuite():
		m["results"] = r.Parts
		if r.Aims != nil {
			m["aims"] = r.Aims
		}
	case r.isSweep():
		points := []any{}
		for i := range r.Points {
			one := r.contest(&r.Points[i])
			one["loss"] = r.Points[i].Settings.Loss
			points = append(points, one)
		}
		m["points"] = points
	default:
		m = r.contest(r.Contest())
	}
	m["scenario"], m["host"], m["settings"] = r.Scenario, r.Host, r.Settings
	if r.Incomplete != "" {
		m["incomplete"] = r.Incomplete
	}
	var b bytes.Buffer
	err := encode(&b, m)
	return b.Bytes(), err
}

// contest returns the contestants of a point with their figures, and the figures of the whole point.
func (r *Result) contest(p *Point) map[string]any {
	m := make(map[string]any)
	for _, row := range p.Rows {
		to := child(m, row.Contestant)
		if to[row.Metric] = row.Value; row.form == asSpread {
			to[row.Metric] = row.Spread
		}
		switch row.form {
		case asQuantile, asPeak:
			child(to, "spread")[row.Metric] = row.Spread
		case asRatio:
			to[row.Metric+"_spread"] = row.Spread
		}
		if row.Contestant == keyOurs && slices.Contains([]string{"lost", "gaps", "allocs_per_msg"}, row.Metric) {
			m[row.Metric] = row.Value
		}
	}
	for contestant, d := range p.Details {
		to := child(m, contestant)
		for key, counts := range map[string]map[string]float64{"publisher": d.Publisher, "subscriber": d.Subscriber} {
			if len(counts) > 0 {
				to[key] = counts
			}
		}
		if d.Curve != nil {
			to["curve"] = d.Curve
		}
	}
	if warning := p.warning(); warning != "" {
		m["doubt"] = warning
	}
	for _, v := range r.Verdicts() {
		m["target_"+v.Name+"_met"] = v.Met
	}
	return m
}

// child returns the object of that name in m, or m itself without a name.
func child(m map[string]any, name string) map[string]any {
	if name == "" {
		return m
	}
	c, ok := m[name].(map[string]any)
	if !ok {
		c = make(map[string]any)
		m[name] = c
	}
	return c
}

// encode writes a line of JSON without escaping <, > and &.
func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
