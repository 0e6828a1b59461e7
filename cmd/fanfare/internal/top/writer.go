package top

import "strings"

// style is how a line looks: an escape sequence of ECMA-48 (SGR).
type style string

const (
	plain    style = ""
	bold     style = "\x1b[1m"
	dim      style = "\x1b[2m"
	reversed style = "\x1b[7m"
	yellow   style = "\x1b[33m"
	red      style = "\x1b[31m"
	reset          = "\x1b[m"
)

// writer collects the lines of a screen.
type writer struct {
	width  int
	colour bool // otherwise no line has a style
	out    []string
}

// line adds one, cut to the width. Whatever is in it, a terminal obeys nothing of it.
func (w *writer) line(st style, text string) {
	text = strings.TrimRight(printable(text), " ")
	if width(text) > w.width {
		text = fit(text, w.width, false)
	}
	if w.colour && st != plain && text != "" {
		text = string(st) + text + reset
	}
	w.out = append(w.out, text)
}

func (w *writer) lines(all []string) {
	for _, l := range all {
		w.line(plain, l)
	}
}

// wrap adds a text in as many lines as it takes.
func (w *writer) wrap(text string) { w.lines(wrapped(text, w.width)) }

// wrapped is a text in lines of so many columns.
func wrapped(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) > columns:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// fill adds empty lines, up to n, or takes away those that are too many.
func (w *writer) fill(n int) {
	for len(w.out) < n {
		w.out = append(w.out, "")
	}
	w.out = w.out[:max(0, min(len(w.out), n))]
}

// text is all lines, n at most.
func (w *writer) text(n int) string {
	return strings.Join(w.out[max(0, len(w.out)-max(n, 1)):], "\n")
}
