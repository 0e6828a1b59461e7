// Package report has the conditions that a bus and its transports report, and the causes of loss. For each condition it
// has the log line with its level and the names of its attributes, the event, advice for operators, and the alert.
// Operators search for lines and use them in alerts, so lines stay the same from one version to the next.
// docs/operate/logs.md and alerts.yml are generated from this package, and fanfare loss prints its texts.
package report

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Line is a log line, with the event, advice and alert of its condition.
type Line struct {
	Level slog.Level
	Text  string
	// Attrs are the names of its attributes. One with a question mark may be absent.
	Attrs string
	// Event is the event for the same condition; Kinds: none.
	Event events.Kind
	// Repeats describes the limit of repeated lines.
	Repeats string
	// Do is advice for operators, a text/template that is executed with a losses.Evidence; empty: none. Plain returns
	// its text without evidence.
	Do string
	// Loss and Alert are nil if there is none. If several lines have the same event, the first has them.
	Loss  *Loss
	Alert *Alert
}

// Loss is for events that are stored in the record of losses, which fanfare loss prints.
type Loss struct {
	// Why is a sentence that explains the event; empty: the line's text explains it.
	Why string
	// OfSubscriber says that the event is about a subscriber of this bus's publishers.
	OfSubscriber bool
}

// Alert is an alerting rule of Prometheus. Without Expr it fires for the time Within after the condition's event.
type Alert struct {
	Name         string
	Expr, Within string // PromQL, a duration
	For          string // time for which Expr must be true, in the format of Prometheus; empty: none
	Severity     string
	// Summary and Description are Prometheus templates. If empty, they are the text and the advice of the condition.
	Summary, Description string
}

// Severities of alerts.
const (
	warning  = "warning"
	critical = "critical"
)

type part interface{ addTo(l *Line) }

func (x Loss) addTo(l *Line)  { l.Loss = &x }
func (x Alert) addTo(l *Line) { l.Alert = &x }

func line(level slog.Level, text, attrs string, event events.Kind, repeats, do string, more ...part) Line {
	l := Line{Level: level, Text: text, Attrs: attrs, Event: event, Repeats: repeats, Do: do}
	for _, p := range more {
		p.addTo(&l)
	}
	return l
}

// Why explains the condition in a sentence.
func (l *Line) Why() string {
	if l.Loss != nil && l.Loss.Why != "" {
		return l.Loss.Why
	}
	return sentence(l.Text)
}

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// Plain returns the text of an advice without evidence: of each action the quoted text, of each condition the branch
// after else.
func Plain(do string) string {
	var b strings.Builder
	for {
		text, rest, more := strings.Cut(do, "{{")
		if b.WriteString(text); !more {
			return b.String()
		}
		action, rest, _ := strings.Cut(rest, "}}")
		if strings.HasPrefix(action, "if ") {
			_, rest, _ = strings.Cut(rest, "{{else}}")
		}
		_, quoted, _ := strings.Cut(action, `"`)
		b.WriteString(strings.TrimSuffix(quoted, `"`))
		do = rest
	}
}

// Losses returns the lines with a Loss, by the label of their event.
var Losses = sync.OnceValue(func() map[string]*Line {
	all := make(map[string]*Line)
	for _, s := range All {
		for _, l := range s.Lines {
			if l.Loss != nil {
				all[l.Event.Label()] = l
			}
		}
	}
	return all
})

// LeftOut is the attribute for the number of lines that were suppressed before one. It counts all lines under the same
// limit, not only those with the same text.
const LeftOut = "lines_left_out"

// How lines are limited. docs/operate/logs.md explains these terms.
const (
	once     = "once"
	each     = "each time"
	ofPeers  = "limited"
	once10s  = "once in 10 s a peer"
	doubling = "after 1, 2, 4 … s"
	powers   = "at the 1st, 2nd, 4th … time"
)

// Undeclared, if not nil, is called when a line is logged with an undeclared attribute, or without a mandatory one.
// Tests set it.
var Undeclared func(l *Line, attr string)

// Log logs the line. args are as for slog.Logger.Log.
func (l *Line) Log(to *slog.Logger, args ...any) { l.log(to, l.Level, args) }

// Debug logs the line at the debug level, because another one has reported the same.
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
