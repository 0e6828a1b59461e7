// Package report has the conditions that a bus and its transports report: for each the log line with its level and the
// names of its attributes, the event, advice for operators, the text of fanfare loss, and the alert. Operators search
// for lines and use them in alerts, so lines stay the same from one version to the next. docs/operate/logs.md and
// alerts.yml are generated from this package.
package report

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Line is a log line, with the event, advice and alert of its condition.
type Line struct {
	Level slog.Level
	Text  string
	// Attrs are the names of its attributes. One with a question mark may be absent.
	Attrs string
	// Event is the label of the event for the same condition; empty: none.
	Event string
	// Repeats describes the limit of repeated lines.
	Repeats string
	// Do is advice for operators; empty: none.
	Do string
	// Loss and Alert are nil if there is none. If several lines have the same event, the first has them.
	Loss  *Loss
	Alert *Alert
}

// Loss is the text of fanfare loss for an event. Such events are stored in the record of losses.
type Loss struct {
	// Why is a sentence that explains the event.
	Why string
	// Do is advice: a text/template that is executed with a losses.Evidence.
	Do string
	// OfSubscriber says that the event is about a subscriber of this bus's publishers.
	OfSubscriber bool
}

// Alert is an alerting rule of Prometheus.
type Alert struct {
	Name string
	Expr string // PromQL
	// For is the time for which Expr must be true, in the format of Prometheus; empty: none.
	For                  string
	Severity             string
	Summary, Description string // Prometheus templates
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

// Losses returns the Loss of each event that has one, by the event's label.
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

// LeftOut is the attribute for the number of lines that were suppressed before one. It counts all lines under the same
// limit, not only those with the same text.
const LeftOut = "lines_left_out"

// Limits of lines. docs/operate/logs.md explains these terms.
const (
	once     = "once"
	each     = "each time"
	ofPeers  = "peer limit"
	once10s  = "once in 10 s a peer"
	doubling = "after 1, 2, 4 … s"
	powers   = "at the 1st, 2nd, 4th … time"
)

// Undeclared, if not nil, is called when a line is logged with an undeclared attribute, or without a mandatory one.
// Tests set it.
var Undeclared func(l *Line, attr string)

// Log logs the line. args are as for slog.Logger.Log.
func (l *Line) Log(to *slog.Logger, args ...any) { l.log(to, l.Level, args) }

// Debug logs the line at debug level. It is for conditions that another line has already reported.
func (l *Line) Debug(to *slog.Logger, args ...any) { l.log(to, slog.LevelDebug, args) }

func (l *Line) log(to *slog.Logger, level slog.Level, args []any) {
	for i, x := range args {
		if d, ok := x.(time.Duration); ok {
			args[i] = d.Round(time.Millisecond)
		}
	}
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
