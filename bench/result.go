package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
)

// Result is what a scenario gave. It marshals to one JSON object.
type Result struct {
	Scenario string
	Host     Host
	Settings Settings
	// Incomplete is why the measurement ended early, and empty if it did not. What is in
	// the result was measured before, and may be of fewer runs than were asked for.
	Incomplete string
	// Points are one contest, or of the scenario loss one at each share.
	Points []Point
	// Parts are the results of the scenario aims, in the order they were measured,
	// and Aims what it has judged; nil: it is another scenario.
	Parts []*Result
	Aims  []Aim
}

// Point is a contest at some settings.
type Point struct {
	Settings Settings
	Rows     []Row
	// Details are by contestant.
	Details map[string]Detail
}

// Row is one figure of a contestant over its runs.
type Row struct {
	Who    string // its key; empty of ratios, and where there is one contestant
	Metric string // the figure's key in JSON
	Value  float64
	Spread           // of the runs
	Runs   []float64 // of the runs that have the figure, in their order

	form form
}

// form is how a row's value follows from its runs, and how JSON has it.
type form int

const (
	asSpread   form = iota // the median; an object with min, median and max
	asQuantile             // the median; the number, and beside it in "spread" the object
	asPeak                 // the largest; like quantile
	asRatio                // the median; the number, and as KEY_spread the object
	asMost                 // the largest; the number alone, like those that follow
	asMean
	asSum
)

func newRow(who, metric string, f form, runs []float64) Row {
	r := Row{Who: who, Metric: metric, Spread: spreadOf(runs), Runs: runs, form: f}
	total := 0.0
	for _, x := range runs {
		total += x
	}
	switch f {
	case asPeak, asMost:
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

// Detail is what a contestant gave that is no figure of its own.
type Detail struct {
	// Curve is how late messages were, of all runs together.
	Curve []CurvePoint
	// The contender's own counts of the last run, of the publisher and the first subscriber.
	Publisher, Subscriber map[string]float64
}

// CurvePoint is one of a percentile curve.
type CurvePoint struct {
	Percentile float64 `json:"percentile"`
	Us         float64 `json:"us"`
}

// Row is a contestant's figure; all zero, without runs, if it was not measured.
func (p *Point) Row(who, metric string) Row {
	i := slices.IndexFunc(p.Rows, func(r Row) bool { return r.Who == who && r.Metric == metric })
	if i < 0 {
		return Row{Who: who, Metric: metric}
	}
	return p.Rows[i]
}

// Value is the value of a contestant's figure, and 0 if it was not measured.
func (p *Point) Value(who, metric string) float64 { return p.Row(who, metric).Value }

// Rate is how many messages a second a contestant's slowest subscriber got.
func (p *Point) Rate(who string) float64 { return p.Value(who, "msgs_per_s") }

// Ratio is a ratio by its name: of full load a contestant's key (contestant.of and by say what is divided; where they
// are empty ours by it), or batches_BASELINE. Of latency "p50_raw" is ours by raw, below 1 where ours is faster. Runs
// are divided by their neighbours.
func (p *Point) Ratio(name string) Row { return p.Row("", "ratio_"+name) }

// Has reports whether a row was measured.
func (r Row) Has() bool { return len(r.Runs) > 0 }

// Keys are the point's contestants: ours first, its variants, then what it is compared with.
func (p *Point) Keys() (keys []string) {
	for _, r := range p.Rows {
		if r.Who != "" && !slices.Contains(keys, r.Who) {
			keys = append(keys, r.Who)
		}
	}
	return keys
}

// Results are the single results of a result.
func (r *Result) Results() []*Result {
	if r.isSuite() {
		return r.Parts
	}
	return []*Result{r}
}

func (r *Result) isSuite() bool { return r.Scenario == "aims" }

// isSweep reports whether the points have settings of their own.
func (r *Result) isSweep() bool { return r.Scenario == "loss" }

// Contest is the point of a result that has one.
func (r *Result) Contest() *Point {
	if len(r.Points) == 0 {
		return &Point{}
	}
	return &r.Points[0]
}

// Lost is how many messages Fanfare's subscribers have lost permanently in all of the result.
func (r *Result) Lost() (n uint64) {
	for _, part := range r.Results() {
		for i := range part.Points {
			for _, row := range part.Points[i].Rows {
				if row.Metric == "lost" && isFanfare(row.Who) {
					n += uint64(row.Value)
				}
			}
		}
	}
	return n
}

// MarshalJSON writes head and contestants side by side in one object, with ratios as
// ratio_NAME and ratio_NAME_spread; points and parts in lists.
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

// contest is the contestants of a point with their figures, and what is said of all of it.
func (r *Result) contest(p *Point) map[string]any {
	m := make(map[string]any)
	for _, row := range p.Rows {
		to := child(m, row.Who)
		if to[row.Metric] = row.Value; row.form == asSpread {
			to[row.Metric] = row.Spread
		}
		switch row.form {
		case asQuantile, asPeak:
			child(to, "spread")[row.Metric] = row.Spread
		case asRatio:
			to[row.Metric+"_spread"] = row.Spread
		}
		if row.Who == keyOurs && slices.Contains([]string{"lost", "gaps", "allocs_per_msg"}, row.Metric) {
			m[row.Metric] = row.Value
		}
	}
	for who, d := range p.Details {
		to := child(m, who)
		for key, counts := range map[string]map[string]float64{"publisher": d.Publisher, "subscriber": d.Subscriber} {
			if len(counts) > 0 {
				to[key] = counts
			}
		}
		if d.Curve != nil {
			to["curve"] = d.Curve
		}
	}
	if doubt := p.doubt(); doubt != "" {
		m["doubt"] = doubt
	}
	for _, v := range r.Verdicts() {
		m["target_"+v.Name+"_met"] = v.Met
	}
	return m
}

// child is the object of that name in another: itself where it has no name.
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

// encode writes a line of JSON with <, > and & as they are.
func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
