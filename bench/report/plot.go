package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// line is one curve of a chart.
type line struct {
	name   string
	points plotter.XYs
	dashes int // which of dashes
	series int // which colour
}

// colour is the line's, in the style sheet.
func (l *line) colour() int { return l.series % len(series) }

// dashes are how lines are drawn: the first, which has none, is Fanfare's. The style
// sheet has the same for legends.
var dashes = [][]vg.Length{nil, {5, 3}, {1.5, 2.5}, {7, 2, 1.5, 2}, {11, 4}}

// chart is a picture with axes; x and y say what they are.
type chart struct {
	title, x, y  string
	lines        []line
	xTicks       []plot.Tick // nil: as the axis likes
	xLog, yLog   bool
	yFromZero    bool
	yTickLabel   func(float64) string
	withoutMarks bool
}

const (
	chartWidth  = 15 * vg.Centimeter
	chartHeight = 8 * vg.Centimeter
	margin      = 12 // points
)

// Colours are stand-ins that the page's style sheet replaces (recolour), so that
// one picture suits light and dark.
var (
	ink    = color.RGBA{R: 1, G: 2, B: 3, A: 255}
	faint  = color.RGBA{R: 4, G: 5, B: 6, A: 255}
	series = []color.RGBA{{11, 0, 0, 255}, {12, 0, 0, 255}, {13, 0, 0, 255}, {14, 0, 0, 255}, {15, 0, 0, 255}, {16, 0, 0, 255}, {17, 0, 0, 255}}
)

// recolour puts the style sheet's colours for the stand-ins, and its font.
func recolour(svg string) string {
	pairs := []string{hex(ink), "var(--ink)", hex(faint), "var(--grid)"}
	for i, c := range series {
		pairs = append(pairs, hex(c), fmt.Sprintf("var(--c%d)", i))
	}
	return fontOf.ReplaceAllString(strings.NewReplacer(pairs...).Replace(svg), "font-family:Liberation Sans,Arial,Helvetica,sans-serif")
}

var fontOf = regexp.MustCompile(`font-family:[^;"]*(;font-(variant|weight|style):[a-z]+)*`)

func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

// svg draws the chart.
func (c *chart) svg() (template.HTML, error) {
	p := plot.New()
	p.BackgroundColor = nil
	// The page says what the axes are: gonum takes a label's place on a logarithmic
	// axis for another, and leaves it room there.
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Color, a.LineStyle.Color, a.Tick.Color = ink, faint, faint
		a.Tick.Label.Color = ink
		f := &a.Tick.Label.Font
		f.Typeface, f.Variant, f.Size = "Liberation", "Sans", 10
		a.Padding = vg.Points(4)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, faint
	grid.Horizontal.Width, grid.Vertical.Width = vg.Points(0.5), vg.Points(0.5)
	p.Add(grid)
	for _, l := range c.lines {
		if err := c.add(p, l); err != nil {
			return "", err
		}
	}
	c.scale(p)
	canvas := vgsvg.NewWith(vgsvg.UseWH(chartWidth, chartHeight))
	p.Draw(draw.Crop(draw.New(canvas), margin/3, -margin, 0, -margin)) // the last labels hang over
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	return template.HTML(c.label(recolour(b.String()))), nil
}

// add draws a curve.
func (c *chart) add(p *plot.Plot, l line) error {
	pts := l.points
	if c.xLog || c.yLog {
		pts = nil // a logarithm needs something above zero
		for _, xy := range l.points {
			if (!c.xLog || xy.X > 0) && (!c.yLog || xy.Y > 0) {
				pts = append(pts, xy)
			}
		}
	}
	if len(pts) == 0 {
		return nil
	}
	curve, marks, err := plotter.NewLinePoints(pts)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", c.title, l.name, err)
	}
	col := series[l.colour()]
	curve.Color, curve.Width = col, vg.Points(1.8)
	marks.Color, marks.Shape, marks.Radius = col, draw.CircleGlyph{}, vg.Points(2.2)
	curve.Dashes = dashes[l.dashes%len(dashes)]
	p.Add(curve)
	if !c.withoutMarks {
		p.Add(marks)
	}
	return nil
}

// scale sets the axes.
func (c *chart) scale(p *plot.Plot) {
	if c.yFromZero {
		p.Y.Min = 0
	}
	fit(&p.X, c.xLog)
	fit(&p.Y, c.yLog)
	label := c.yTickLabel
	if label == nil {
		label = short
	}
	if c.yLog {
		p.Y.Min, p.Y.Max = p.Y.Min/1.5, p.Y.Max*1.5
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades(label)
	} else {
		p.Y.Max *= 1.05
		p.Y.Tick.Marker = relabel{plot.DefaultTicks{}, label}
	}
	if c.xLog {
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = decades(short)
	}
	if c.xTicks != nil {
		p.X.Tick.Marker = plot.ConstantTicks(c.xTicks)
	}
}

// fit gives an axis a length where there is one value, or none: then its limits
// are infinite.
func fit(a *plot.Axis, log bool) {
	if math.IsInf(a.Min, 0) || math.IsNaN(a.Min) || (log && a.Min <= 0) {
		a.Min, a.Max = 1, 10
	}
	if !(a.Max > a.Min) {
		a.Max = a.Min + 1
	}
}

// label gives the picture a name for those who do not see it, and lets the page
// set its size.
func (c *chart) label(svg string) string {
	if i := strings.Index(svg, "<svg"); i >= 0 {
		svg = svg[i:]
	}
	svg = sizeOf.ReplaceAllString(svg, "<svg ")
	// Inline in HTML an element needs no namespace, and the page no address.
	svg = namespaceOf.ReplaceAllString(svg, "")
	name := template.HTMLEscapeString(c.title)
	return strings.Replace(svg, "<svg ", fmt.Sprintf("<svg role=%q aria-label=%q ", "img", name), 1)
}

var (
	sizeOf      = regexp.MustCompile(`<svg width="[^"]*" height="[^"]*"\s*`)
	namespaceOf = regexp.MustCompile(`\s*xmlns(:[a-z]+)?="[^"]*"`)
)

// relabel writes an axis's own ticks in another way.
type relabel struct {
	plot.Ticker
	label func(float64) string
}

// Ticks implements plot.Ticker.
func (r relabel) Ticks(low, high float64) []plot.Tick {
	ticks := r.Ticker.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = r.label(ticks[i].Value)
		}
	}
	return ticks
}

// decades are ticks at 1, 10, 100, …, and where that gives few at 2 and 5, too.
type decades func(float64) string

// Ticks implements plot.Ticker.
func (d decades) Ticks(low, high float64) []plot.Tick {
	steps := []float64{1}
	if math.Log10(high/low) < 3 {
		steps = []float64{1, 2, 5}
	}
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, e); v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: d(v)})
			}
		}
	}
	return ticks
}
