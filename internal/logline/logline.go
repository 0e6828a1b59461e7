// Package logline has the lines that a bus and its transports write into their log: the text, the level and the names
// of the attributes of each. Operators search for them and make alerts of them, so they stay the same from one version
// to the next. docs/operate/logs.md is generated from this package.
package logline

import (
	"context"
	"log/slog"
	"strings"
)

// Line is one line.
type Line struct {
	Level slog.Level
	Text  string
	// Attrs are the names of its attributes, those with a question mark only where they are known.
	Attrs string
	// Event is the label of the event that reports the same; empty: there is none.
	Event string
	// Repeats says how repeated lines are limited.
	Repeats string
	// Do is what an operator does about it; empty: nothing.
	Do string
}

// LeftOut is the attribute that says how many lines were left out before one: lines of the same
// kind of limit, not only of the same text.
const LeftOut = "lines_left_out"

// How lines are limited. docs/operate/logs.md explains these terms.
const (
	once     = "once"
	each     = "each time"
	ofPeers  = "peer limit"
	once10s  = "once in 10 s a peer; " + ofPeers
	doubling = "after 1, 2, 4 … s"
	powers   = "at the 1st, 2nd, 4th … time"
)

// Undeclared, if not nil, is called when a line is written with an attribute that it does not declare,
// or without a mandatory one. Tests set it.
var Undeclared func(l *Line, attr string)

// Log writes the line, with args as slog.Logger.Log takes them.
func (l *Line) Log(to *slog.Logger, args ...any) { l.log(to, l.Level, args) }

// Debug writes the line for debugging: where another one has said the same.
func (l *Line) Debug(to *slog.Logger, args ...any) { l.log(to, slog.LevelDebug, args) }

func (l *Line) log(to *slog.Logger, level slog.Level, args []any) {
	if Undeclared != nil {
		l.check(args)
	}
	to.Log(context.Background(), level, l.Text, args...)
}

func (l *Line) check(args []any) {
	missing := make(map[string]bool)
	known := map[string]bool{LeftOut: true}
	for _, name := range strings.Fields(l.Attrs) {
		name, optional := strings.CutSuffix(name, "?")
		known[name] = true
		if !optional {
			missing[name] = true
		}
	}
	for i := 0; i < len(args); i += 2 {
		name, ok := args[i].(string)
		if !ok || !known[name] {
			Undeclared(l, name)
		}
		delete(missing, name)
	}
	for name := range missing {
		Undeclared(l, name)
	}
}
