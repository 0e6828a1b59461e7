package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

//go:embed figures.json
var figuresJSON []byte

// figures are the data of the plot. Cite quotes the text of docs/performance.md that contains the figure.
type figures struct {
	Machine, Command string
	Throughput       []struct {
		Name           string
		Value          float64 // million messages a second
		Cite           string
		OursOver       float64 // if only a ratio is cited: Fanfare's value divided by this one
		Ours, Baseline bool
	}
	Latency []struct {
		Name           string
		P50, P99       float64 // µs
		Cite           string
		Ours, Baseline bool
	}
}

func readFigures() (*figures, error) {
	f := new(figures)
	if err := json.Unmarshal(figuresJSON, f); err != nil {
		return nil, fmt.Errorf("figures.json: %w", err)
	}
	return f, nil
}

// drawPeers draws throughput and latency of Fanfare and of other systems.
func drawPeers(c *colours, f *figures) []byte {
	const width, height = 920, 324
	v := newCanvas(c, width, height, "Throughput and latency of Fanfare, raw UDP, ZeroMQ epgm and NATS")
	v.throughput(f)
	v.latency(f)
	v.label(24, height-16, "start", c.muted, small, f.Machine)
	return v.done()
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

const (
	plotTop = 84.0
	rowGap  = 34.0
)

func (v *canvas) rowLabel(x, y float64, name string, ours bool) {
	colour, style := v.muted, ""
	if ours {
		colour, style = v.text, bold
	}
	v.label(x, y, "end", colour, style, name)
}

func (v *canvas) colourOf(ours, baseline bool) string {
	switch {
	case ours:
		return v.data
	case baseline:
		return v.line
	}
	return v.control
}

func (v *canvas) throughput(f *figures) {
	const left, right = 170.0, 420.0
	v.label(24, 34, "start", v.text, bold, "Million messages a second")
	v.label(24, 54, "start", v.muted, small, "64 bytes each, to one subscriber: longer is better")
	largest := 0.0
	for _, r := range f.Throughput {
		largest = max(largest, r.Value)
	}
	for i, r := range f.Throughput {
		y := plotTop + rowGap*float64(i)
		w := max((right-left)*r.Value/largest, 2)
		v.rowLabel(left-12, y+15, r.Name, r.Ours)
		fmt.Fprintf(&v.b, `<rect x="%g" y="%g" width="%.1f" height="20" rx="3" fill="%s"/>`+"\n", left, y, w, v.colourOf(r.Ours, r.Baseline))
		v.label(left+math.Round(w)+8, y+15, "start", v.text, "", number(r.Value))
	}
}

// latency draws a line from p50 to p99 for each system, on a logarithmic axis.
func (v *canvas) latency(f *figures) {
	const left, right, from, to = 640.0, 850.0, 10.0, 10000.0
	at := func(us float64) float64 {
		return math.Round(left + (right-left)*math.Log10(us/from)/math.Log10(to/from))
	}
	v.label(488, 34, "start", v.text, bold, "Latency, from p50 to p99")
	v.label(488, 54, "start", v.muted, small, "50,000 messages a second, logarithmic: further left is better")
	bottom := plotTop + rowGap*float64(len(f.Latency))
	for _, tick := range []struct {
		us   float64
		text string
	}{{10, "10 µs"}, {100, "100 µs"}, {1000, "1 ms"}, {10000, "10 ms"}} {
		v.segment(at(tick.us), plotTop-8, at(tick.us), bottom, v.line, 1, "")
		v.label(at(tick.us), bottom+18, "middle", v.muted, small, tick.text)
	}
	for i, r := range f.Latency {
		y := plotTop + rowGap*float64(i) + 10
		colour := v.colourOf(r.Ours, false)
		v.rowLabel(left-14, y+5, r.Name, r.Ours)
		v.segment(at(r.P50), y, at(r.P99), y, colour, 3, "")
		v.dot(at(r.P50), y, 5, colour, false)
		v.dot(at(r.P99), y, 5, colour, true)
	}
}
