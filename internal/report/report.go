// Package report has the conditions that a bus and its transports report: of each the line in the log with its level
// and the names of its attributes, the event, what an operator does about it, what fanfare loss says, and the alert.
// Operators search for lines and make alerts of them, so they stay the same from one version to the next.
// docs/operate/logs.md and alerts.yml are generated from this package.
package report

import (
	"context"
	"log/slog"
	"strings"
	"sync"
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
	// Loss and Alert are nil where there is none. Of several lines of one event the first has them.
	Loss  *Loss
	Alert *Alert
}

// Loss is what fanfare loss says of an event. Such events are kept in the record of losses.
type Loss struct {
	// Why is the sentence that says what it means.
	Why string
	// Do says what to do about it, as a text/template of what is known of the case (losses.Evidence).
	Do string
	// OfSubscriber: the event is about a subscriber of this bus's publishers.
	OfSubscriber bool
}

// Alert is a rule of Prometheus.
type Alert struct {
	Name string
	Expr string // PromQL
	// For is how long Expr has to hold, as Prometheus writes it; empty: it need not last.
	For                  string
	Severity             string
	Summary, Description string // templates of Prometheus
}

// Severities of alerts.
const (
	warning  = "warning"
	critical = "critical"
)

type part interface{ addTo(l *Line) }

func (x Loss) addTo(l *Line)  { l.Loss = &x }
func (x Alert) addTo(l *Line) { l.Alert = &x }

func line(level slog.Level, text, attrs, event, repeats, do string, more ...part) Line {
	l := Line{Level: level, Text: text, Attrs: attrs, Event: event, Repeats: repeats, Do: do}
	for _, p := range more {
		p.addTo(&l)
	}
	return l
}

// Losses are those of all events that have one, by the events' labels.
var Losses = sync.OnceValue(func() map[string]*Loss {
	all := make(map[string]*Loss)
	for _, s := range All {
		for _, l := range s.Lines {
			if l.Loss != nil {
				all[l.Event] = l.Loss
			}
		}
	}
	return all
})

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
