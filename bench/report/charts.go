package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/fanfaremq/fanfare/bench"
)

const ours = "ours"

// percentileChart shows how late how many messages are: each step to the right
// is ten times rarer.
func percentileChart(title string, by map[string]*bench.Percentiles) *chart {
	c := &chart{
		title: title, x: "percentile of messages", y: "µs from due to delivered", xLog: true, yLog: true, withoutMarks: true,
	}
	most := 1.0
	for i, key := range bench.Keys(by) {
		l := line{name: key, series: i}
		if !bench.IsOurs(key) {
			l.dashes = 1
		}
		for _, p := range by[key].Curve {
			if p.Percentile >= 100 {
				continue
			}
			x := 100 / (100 - p.Percentile)
			most = max(most, x)
			l.points = append(l.points, plotter.XY{X: x, Y: p.Us})
		}
		c.lines = append(c.lines, l)
	}
	for x := 1.0; x <= most*1.01; x *= 10 {
		c.xTicks = append(c.xTicks, plot.Tick{Value: x, Label: percentileName(x)})
	}
	c.xTicks = append(c.xTicks, plot.Tick{Value: 2, Label: "50 %"})
	return c
}

// percentileName is of one in x: 10 is 90 %, 1000 is 99.9 %.
func percentileName(x float64) string {
	decimals := max(0, int(math.Round(math.Log10(x)))-2)
	return fmt.Sprintf("%.*f %%", decimals, 100-100/x)
}

// sizeCharts show messages and bytes a second by size.
func sizeCharts(s *bench.Sweep) []*chart {
	rate := &chart{title: "Messages a second by size", x: "bytes in a message", y: "messages a second", xLog: true, yLog: true}
	bytes := &chart{title: "Payload by size", x: "bytes in a message", y: "bytes a second", xLog: true, yLog: true}
	curves := newCurves()
	for _, p := range s.Points {
		for _, key := range bench.Keys(p.Rates) {
			mtu := fmt.Sprintf("MTU %d", p.MTU)
			curves.add(key+", "+mtu, mtu, key, float64(p.Size), p.Rates[key].MsgsPerS.Median, p.Rates[key].BytesPerS.Median)
		}
	}
	var ticks []plot.Tick
	for _, size := range bench.Sizes {
		ticks = append(ticks, plot.Tick{Value: float64(size), Label: sizeName(size)})
	}
	rate.lines, rate.xTicks = curves.lines(0), ticks
	bytes.lines, bytes.xTicks = curves.lines(1), ticks
	return []*chart{rate, bytes}
}

func sizeName(size int) string {
	if size >= 1024 && size%1024 == 0 {
		return fmt.Sprintf("%dK", size/1024)
	}
	return fmt.Sprint(size)
}

// fanoutCharts show what each subscriber gets, and what it costs the publisher.
func fanoutCharts(s *bench.Sweep) []*chart {
	rate := &chart{title: "What each subscriber gets", x: "subscribers", y: "messages a second", xLog: true, yLog: true}
	cost := &chart{title: "The publisher's CPU time", x: "subscribers", y: "ns a message", xLog: true, yLog: true}
	rates, costs := newCurves(), newCurves()
	for _, p := range s.Points {
		for _, key := range bench.Keys(p.Rates) {
			r := p.Rates[key]
			rates.add(key+", "+place(p.Together), place(p.Together), key, float64(p.Subs), r.MsgsPerS.Median)
			if key == ours && !p.Together {
				// Microseconds a message are seconds a million.
				costs.add("own code", "own code", ours, float64(p.Subs), r.PublisherUser.Median*1e3)
				costs.add("kernel", "kernel", ours, float64(p.Subs), r.PublisherSystem.Median*1e3)
			}
		}
	}
	var ticks []plot.Tick
	for _, n := range bench.Fanouts {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: fmt.Sprint(n)})
	}
	rate.lines, rate.xTicks = rates.lines(0), ticks
	if len(costs.order) == 0 {
		return []*chart{rate}
	}
	cost.lines, cost.xTicks = costs.lines(0), ticks
	return []*chart{rate, cost}
}

// lossChart shows how much of the lossless throughput is left.
func lossChart(s *bench.Sweep) *chart {
	c := &chart{title: "Throughput by loss", x: "% of packets lost", y: "% of the lossless throughput", yFromZero: true}
	curve := line{name: ours}
	for _, p := range s.Points {
		switch r, ok := p.Ratios["lossless"]; {
		case ok:
			curve.points = append(curve.points, plotter.XY{X: 100 * p.Loss, Y: 100 * r.Median})
		case p.Loss == 0:
			curve.points = append(curve.points, plotter.XY{X: 0, Y: 100})
		}
	}
	c.lines = []line{curve}
	return c
}

// curves collects points under names, in the order they first came. Curves of
// one family have one colour, and those of one contestant one kind of dashes.
type curves struct {
	order    []string
	families []string
	keys     []string // but for ours
	looks    map[string]line
	points   map[string][]plotter.XYs // name → one list for each value of add
}

func newCurves() *curves {
	return &curves{looks: make(map[string]line), points: make(map[string][]plotter.XYs)}
}

func (c *curves) add(name, family, key string, x float64, ys ...float64) {
	if c.points[name] == nil {
		if !slices.Contains(c.families, family) {
			c.families = append(c.families, family)
		}
		c.order = append(c.order, name)
		if key != ours && !slices.Contains(c.keys, key) {
			c.keys = append(c.keys, key)
		}
		c.looks[name] = line{name: name, dashes: 1 + slices.Index(c.keys, key), series: slices.Index(c.families, family)}
		c.points[name] = make([]plotter.XYs, len(ys))
	}
	for i, y := range ys {
		c.points[name][i] = append(c.points[name][i], plotter.XY{X: x, Y: y})
	}
}

func (c *curves) lines(value int) (all []line) {
	for _, name := range c.order {
		l := c.looks[name]
		l.points = c.points[name][value]
		all = append(all, l)
	}
	return all
}

func short(x float64) string { return bench.Short(x) }
