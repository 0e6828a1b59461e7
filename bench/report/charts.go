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

// scripts are what the page runs, and allowed is by what a browser knows them: it runs
// nothing else (Content Security Policy Level 3, hash-source).
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

// chart is a picture with axes, as chart.js reads it.
type chart struct {
	Title string `json:"title"`
	X     string `json:"x"` // what the axes are
	Y     string `json:"y"`
	Lines []line `json:"lines"`
	// Ticks are those of the horizontal axis; none: as the axis likes.
	Ticks []tick `json:"ticks,omitempty"`
	// Logarithmic axes: only what is above zero is drawn.
	XLog  bool `json:"xLog"`
	YLog  bool `json:"yLog"`
	Marks bool `json:"marks"` // at each point
	// OneIn: the horizontal axis has 1 in x messages, and is read as a percentile.
	OneIn bool `json:"oneIn"`
}

// line is one curve. The vertical coordinates belong to the horizontal ones, which ascend.
type line struct {
	Name   string    `json:"name"`
	Colour int       `json:"colour"` // which one of the style sheet's
	Dashes int       `json:"dashes"` // which ones of the style sheet's
	X      []float64 `json:"xs"`
	Y      []float64 `json:"ys"`
}

type tick struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

// The style sheet and chart.js have as many.
const (
	colours = 7
	dashes  = 5 // the first, which has none, is Fanfare's
)

// Data is the chart for chart.js.
func (c *chart) Data() (string, error) {
	text, err := json.Marshal(c)
	return string(text), err
}

// add adds a point to the curve of that name.
func (c *chart) add(name string, colour, dash int, x, y float64) {
	i := slices.IndexFunc(c.Lines, func(l line) bool { return l.Name == name })
	if i < 0 {
		i = len(c.Lines)
		c.Lines = append(c.Lines, line{Name: name, Colour: colour % colours, Dashes: dash % dashes, X: []float64{}, Y: []float64{}})
	}
	if c.XLog && x <= 0 || c.YLog && y <= 0 {
		return
	}
	c.Lines[i].X, c.Lines[i].Y = append(c.Lines[i].X, x), append(c.Lines[i].Y, y)
}

const ours = "ours"

// percentileChart shows how late how many messages are: each step to the right
// is ten times rarer.
func percentileChart(title string, p *bench.Point) *chart {
	c := &chart{Title: title, X: "percentile of messages", Y: "µs from due to delivered", XLog: true, YLog: true, OneIn: true}
	most := 1.0
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
			most = max(most, x)
			c.add(key, i, dash, x, at.Us)
		}
	}
	c.Ticks = []tick{{1, percentileName(1)}, {2, "50 %"}}
	for x := 10.0; x <= most*1.01; x *= 10 {
		c.Ticks = append(c.Ticks, tick{x, percentileName(x)})
	}
	return c
}

// percentileName is of one in x: 10 is 90 %, 1000 is 99.9 %.
func percentileName(x float64) string {
	decimals := max(0, int(math.Round(math.Log10(x)))-2)
	return fmt.Sprintf("%.*f %%", decimals, 100-100/x)
}

// looks give curves of one family one colour, and those of one contestant one kind of
// dashes.
type looks struct{ families, keys []string }

func (l *looks) of(family, key string) (colour, dash int) {
	if key != ours {
		dash = 1 + index(&l.keys, key)
	}
	return index(&l.families, family), dash
}

// index is where a word stands in a list, at the end if it was not there.
func index(list *[]string, word string) int {
	if i := slices.Index(*list, word); i >= 0 {
		return i
	}
	*list = append(*list, word)
	return len(*list) - 1
}

// sizeCharts show messages and bytes a second by size.
func sizeCharts(r *bench.Result) []*chart {
	rate := &chart{Title: "Messages a second by size", X: "bytes in a message", Y: "messages a second", XLog: true, YLog: true, Marks: true}
	bytes := &chart{Title: "Payload by size", X: rate.X, Y: "bytes a second", XLog: true, YLog: true, Marks: true}
	var l looks
	for i := range r.Points {
		p := &r.Points[i]
		for _, key := range p.Keys() {
			mtu := fmt.Sprintf("MTU %d", p.Settings.MTU)
			colour, dash := l.of(mtu, key)
			rate.add(key+", "+mtu, colour, dash, float64(p.Settings.Size), p.Rate(key))
			bytes.add(key+", "+mtu, colour, dash, float64(p.Settings.Size), p.Value(key, "bytes_per_s"))
		}
	}
	for _, size := range bench.Sizes {
		rate.Ticks = append(rate.Ticks, tick{float64(size), sizeName(size)})
	}
	bytes.Ticks = rate.Ticks
	return []*chart{rate, bytes}
}

func sizeName(size int) string {
	if size >= 1024 && size%1024 == 0 {
		return fmt.Sprintf("%dK", size/1024)
	}
	return fmt.Sprint(size)
}

// fanoutCharts show what each subscriber gets, and what it costs the publisher.
func fanoutCharts(r *bench.Result) []*chart {
	rate := &chart{Title: "What each subscriber gets", X: "subscribers", Y: "messages a second", XLog: true, YLog: true, Marks: true}
	cost := &chart{Title: "The publisher's CPU time", X: rate.X, Y: "ns a message", XLog: true, YLog: true, Marks: true}
	var l looks
	for i := range r.Points {
		p := &r.Points[i]
		as, subs := "processes", float64(p.Settings.Subs)
		if p.Settings.Together {
			as = "goroutines"
		}
		for _, key := range p.Keys() {
			colour, dash := l.of(as, key)
			rate.add(key+", "+as, colour, dash, subs, p.Rate(key))
		}
		if !p.Settings.Together && p.Row(ours, "msgs_per_s").Has() {
			// Microseconds a message are seconds a million.
			cost.add("own code", 0, 0, subs, p.Value(ours, "publisher_user_s_per_mmsg")*1e3)
			cost.add("kernel", 1, 0, subs, p.Value(ours, "publisher_system_s_per_mmsg")*1e3)
		}
	}
	for _, n := range bench.Fanouts {
		rate.Ticks = append(rate.Ticks, tick{float64(n), fmt.Sprint(n)})
	}
	cost.Ticks = rate.Ticks
	if len(cost.Lines) == 0 {
		return []*chart{rate}
	}
	return []*chart{rate, cost}
}

// lossChart shows how much of the lossless throughput is left.
func lossChart(r *bench.Result) *chart {
	c := &chart{Title: "Throughput by loss", X: "% of packets lost", Y: "% of the lossless throughput", Marks: true}
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
