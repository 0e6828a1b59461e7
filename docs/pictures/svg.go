package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// colours are the colours of a page, light or dark.
type colours struct {
	name                           string
	page, text, muted, line        string
	data, repair, request, control string // by kind of packet
}

var (
	light = &colours{
		name: "light", page: "#ffffff", text: "#1f2328", muted: "#59636e", line: "#d1d9e0",
		data: "#0969da", repair: "#1a7f37", request: "#bc4c00", control: "#8c959f",
	}
	dark = &colours{
		name: "dark", page: "#0d1117", text: "#f0f6fc", muted: "#9198a1", line: "#3d444d",
		data: "#4493f8", repair: "#3fb950", request: "#f0883e", control: "#768390",
	}
)

// canvas is a picture being drawn. Lengths are in pixels, y grows downwards.
type canvas struct {
	*colours
	b bytes.Buffer
}

func newCanvas(c *colours, width, height int, title string) *canvas {
	v := &canvas{colours: c}
	fmt.Fprintf(&v.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif" font-size="14">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&v.b, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&v.b, `<rect width="%d" height="%d" fill="%s"/>`+"\n", width, height, c.page)
	return v
}

func (v *canvas) done() []byte {
	v.b.WriteString("</svg>\n")
	return v.b.Bytes()
}

// label draws lines of text, 19 pixels apart. anchor is start, middle or end.
func (v *canvas) label(x, y float64, anchor, colour, style string, lines ...string) {
	for i, s := range lines {
		fmt.Fprintf(&v.b, `<text x="%g" y="%g" text-anchor="%s" fill="%s"%s>%s</text>`+"\n",
			x, y+19*float64(i), anchor, colour, style, html.EscapeString(s))
	}
}

const (
	bold  = ` font-weight="600"`
	small = ` font-size="12"`
)

func (v *canvas) segment(x1, y1, x2, y2 float64, colour string, width float64, dash string) {
	if dash != "" {
		dash = fmt.Sprintf(` stroke-dasharray="%s"`, dash)
	}
	fmt.Fprintf(&v.b, `<path d="M%g %g L%g %g" stroke="%s" stroke-width="%g" fill="none" stroke-linecap="round"%s/>`+"\n",
		x1, y1, x2, y2, colour, width, dash)
}

// dot draws a disc, or a circle if hollow.
func (v *canvas) dot(x, y, r float64, colour string, hollow bool) {
	fill := colour
	if hollow {
		fill = v.page
	}
	fmt.Fprintf(&v.b, `<circle cx="%g" cy="%g" r="%g" fill="%s" stroke="%s" stroke-width="2"/>`+"\n", x, y, r, fill, colour)
}

// box draws a rectangle with a centered line of text.
func (v *canvas) box(x, y, w, h float64, fill, stroke, colour, style, s string) {
	fmt.Fprintf(&v.b, `<rect x="%g" y="%g" width="%g" height="%g" rx="6" fill="%s" stroke="%s"/>`+"\n", x, y, w, h, fill, stroke)
	v.label(x+w/2, y+h/2+5, "middle", colour, style, s)
}

// arrowhead draws the head of an arrow from (x1, y1) to (x2, y2).
func (v *canvas) arrowhead(x1, y1, x2, y2 float64, colour string) {
	d := 1.0
	if x2 < x1 {
		d = -1
	}
	slope := (y2 - y1) / (x2 - x1)
	at := func(along, across float64) string {
		return fmt.Sprintf("%g,%g", x2-d*along, y2-d*along*slope+across)
	}
	fmt.Fprintf(&v.b, `<polygon points="%s" fill="%s"/>`+"\n", strings.Join([]string{at(0, 0), at(10, -4.5), at(10, 4.5)}, " "), colour)
}
