package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/internal/uplot"
)

// drawing draws charts in the page.
//
//go:embed chart.js
var drawing string

// scripts are the scripts of the page, and allowed are their hashes: a browser runs no other ones
// (Content Security Policy Level 3, hash-source).
var (
	scripts = []template.JS{template.JS(uplot.Script), template.JS(drawing)}
	allowed = hashes(scripts)
)

func hashes(all []template.JS) (list string) {
	for _, text := range all {
		sum := sha256.Sum256([]byte(text))
		list += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return list
}

// chart is a picture with axes, in the form that chart.js reads.
type chart struct {
	Title string `json:"title"`
	X     string `json:"x"` // axis title
	Y     string `json:"y"`
	Lines []line `json:"lines"`
	// Ticks are those of the horizontal axis; none: automatic.
	Ticks []tick `json:"ticks,omitempty"`
	// OneIn: the horizontal axis is 1 in x messages, labelled as percentiles; both axes are
	// logarithmic and show only positive values. Otherwise each point has a mark.
	OneIn bool `json:"oneIn"`
}

// line is a curve. The horizontal coordinates ascend.
type line struct {
	Name   string    `json:"name"`
	Colour int       `json:"colour"` // index into the style sheet's colours
	Dashes int       `json:"dashes"` // index into the style sheet's dashes
	X      []float64 `json:"xs"`
	Y      []float64 `json:"ys"`
}

type tick struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

// As many as in the style sheet and chart.js.
const (
	colours = 7
	dashes  = 5 // the first, a solid line, is Fanfare's
)

// Data is the chart in the form for chart.js.
func (c *chart) Data() (string, error) {
	text, err := json.Marshal(c)
	return string(text), err
}

// add adds a point to the curve of that name.
func (c *chart) add(name string, colour, dash int, x, y float64) {
	i := slices.IndexFunc(c.Lines, func(l line) bool { return l.Name == name })
	if i < 0 {
		i = len(c.Lines)
		c.Lines = append(c.Lines,
			line{Name: name, Colour: colour % colours, Dashes: dash % dashes, X: []float64{}, Y: []float64{}})
	}
	if c.OneIn && (x <= 0 || y <= 0) {
		return
	}
	c.Lines[i].X, c.Lines[i].Y = append(c.Lines[i].X, x), append(c.Lines[i].Y, y)
}

const ours = "ours"

// percentileChart shows the delay of messages by percentile, on a scale by powers of ten.
func percentileChart(title string, p *bench.Point) *chart {
	c := &chart{Title: title, X: "percentile of messages", Y: "µs from due time to delivery", OneIn: true}
	maximum := 1.0
	for i, key := range p.Keys() {
		dash := 0
		if !bench.IsOurs(key) {
			dash = 1
		}
		for _, at := range p.Details[key].Curve {
			if at.Percentile >= 100 {
				continue
			}
			x := 100 / (100 - at.Percentile)
			maximum = max(maximum, x)
			c.add(key, i, dash, x, at.Us)
		}
	}
	c.Ticks = []tick{{1, percentileName(1)}, {2, "50 %"}}
	for x := 10.0; x <= maximum*1.01; x *= 10 {
		c.Ticks = append(c.Ticks, tick{x, percentileName(x)})
	}
	return c
}

// percentileName is the name of the percentile of one in x: 10 is 90 %, 1000 is 99.9 %.
func percentileName(x float64) string {
	decimals := max(0, int(math.Round(math.Log10(x)))-2)
	return fmt.Sprintf("%.*f %%", decimals, 100-100/x)
}

// lossChart shows the remaining share of the lossless throughput.
func lossChart(r *bench.Result) *chart {
	c := &chart{Title: "Throughput by loss", X: "% of packets lost", Y: "% of the lossless throughput"}
	for i := range r.Points {
		p := &r.Points[i]
		switch left := p.Ratio("lossless"); {
		case left.Has():
			c.add(ours, 0, 0, 100*p.Settings.Loss, 100*left.Value)
		case p.Settings.Loss == 0:
			c.add(ours, 0, 0, 0, 100)
		}
	}
	return c
}
