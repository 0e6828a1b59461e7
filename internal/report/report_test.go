package report

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

var update = flag.Bool("update", false, "write the tables of docs/operate/logs.md, and alerts.yml, again")

// The document lists all log lines of the code.
func TestDocument(t *testing.T) {
	const file, begin, end = "../../docs/operate/logs.md", "<!-- lines -->\n", "<!-- end -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no marks for the lines", file)
	}
	var b strings.Builder
	listed := make(map[string]bool) // a text that also exists at level debug is listed once
	for _, s := range All {
		fmt.Fprintf(&b, "\n### %s\n\n", s.Title)
		for _, l := range s.Lines {
			if listed[l.Text] && l.Level == slog.LevelDebug {
				continue
			}
			listed[l.Text] = true
			fmt.Fprintf(&b, "- %s **%s**", l.Level, l.Text)
			if l.Event != none {
				fmt.Fprintf(&b, ", event `%s`", l.Event.Label())
			}
			fmt.Fprintf(&b, ", %s.", l.Repeats)
			for _, a := range strings.Fields(l.Attrs) {
				name, optional := strings.CutSuffix(a, "?")
				if b.WriteString(" `" + name + "`"); optional {
					b.WriteByte('?')
				}
			}
			if do := Plain(l.Do); do != "" {
				fmt.Fprintf(&b, "  \n  %s", do)
			}
			b.WriteByte('\n')
		}
	}
	generated(t, file, string(text), before+begin+b.String()+"\n"+end+after)
}

// generated writes a document with -update, or else checks that it is up to date.
func generated(t *testing.T, file, is, want string) {
	t.Helper()
	switch {
	case is == want:
	case !*update:
		t.Fatalf("%s is not up to date: go test ./internal/report -run TestDocument -update writes it", file)
	default:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The rules for Prometheus are those of the conditions.
func TestDocumentOfAlerts(t *testing.T) {
	const file = "../../docs/operate/alerts.yml"
	is, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	quoted := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	var b strings.Builder
	b.WriteString(`# Rules for Prometheus: rule_files in its configuration. "promtool test rules alerts_test.yml" tests them.
# What the causes mean, and what to do about each, is in metrics.md. Generated from internal/report.
groups:
  - name: fanfare
    rules:
`)
	for _, a := range alerts() {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n", a.Name, a.Expr)
		if a.For != "" {
			fmt.Fprintf(&b, "        for: %s\n", a.For)
		}
		fmt.Fprintf(&b, "        labels: {severity: %s}\n        annotations:\n          summary: %s\n          description: %s\n",
			a.Severity, quoted(a.Summary), quoted(a.Description))
	}
	generated(t, file, string(is), b.String())
}

// alerts returns the rules of conditions and causes, and the others.
func alerts() (all []Alert) {
	add := func(a *Alert, metric, why, do string) {
		if a == nil {
			return
		}
		all = append(all, Alert{
			Name: a.Name, For: a.For, Severity: a.Severity,
			Expr:        cmp.Or(a.Expr, fmt.Sprintf("increase(%s[%s]) > 0", metric, cmp.Or(a.Within, "5m"))),
			Summary:     cmp.Or(a.Summary, "{{ $labels.instance }}"+why),
			Description: Plain(do),
		})
	}
	for _, s := range All {
		for _, l := range s.Lines {
			add(l.Alert, fmt.Sprintf("fanfare_events_total{event=%q}", l.Event.Label()), ": "+l.Why(), l.Do)
		}
	}
	for _, c := range Causes {
		add(c.Alert, fmt.Sprintf("fanfare_dropped_packets_total{cause=%q}", c.Label), ", packets counted as {{ $labels.cause }}: "+firstSentence(c.Help), c.Do)
	}
	return append(all, otherAlerts...)
}

// firstSentence returns the first sentence of an explanation, without its end.
func firstSentence(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.ToLower(first[:1]) + strings.TrimSuffix(first[1:], ".")
}

// Each line has all documented fields, in the same form, and each event for operators has a line.
func TestLinesAreComplete(t *testing.T) {
	attr, over := regexp.MustCompile(`^[a-z][a-z_]*\??$`), regexp.MustCompile(`no longer blocked|returned|is reset|has the same effect|again$|restored`)
	texts, kinds := make(map[string]bool), make(map[events.Kind]bool)
	for _, s := range All {
		for _, l := range s.Lines {
			if key := l.Level.String() + l.Text; texts[key] || l.Text == "" {
				t.Errorf("two lines have the text %q", l.Text)
			} else {
				texts[key] = true
			}
			if l.Repeats == "" || strings.ContainsAny(l.Text+l.Do, "|\n") || l.Level >= slog.LevelWarn && l.Do == "" && !over.MatchString(l.Text) {
				t.Errorf("%q has no frequency or no advice", l.Text)
			}
			for _, a := range strings.Fields(l.Attrs) {
				if !attr.MatchString(a) {
					t.Errorf("%q has an attribute %q", l.Text, a)
				}
			}
			kinds[l.Event] = true
		}
	}
	for k := range events.Kinds {
		if !kinds[k] {
			t.Errorf("no line reports the event %s", k)
		}
	}
}

// Every log line is in the table: no other code logs, and each line is written somewhere.
func TestNothingElseIsLogged(t *testing.T) {
	levels := map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true, "Log": true, "LogAttrs": true, "DebugContext": true, "InfoContext": true, "WarnContext": true, "ErrorContext": true}
	used, calls := make(map[string]bool), 0
	for _, dir := range []string{"pubsub", "transport", "rdma", "reliable", "internal/engine", "internal/sys", "internal/sys", "internal/metricserver", "internal/inspect"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if of, ok := s.X.(*ast.Ident); ok && of.Name == "report" {
						used[s.Sel.Name] = true
					}
				}
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				s, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !levels[s.Sel.Name] {
					return true
				}
				of := s.X
				if x, ok := of.(*ast.SelectorExpr); ok {
					if ident, ok := x.X.(*ast.Ident); ok && ident.Name == "report" {
						calls++
						return true
					}
					of = x.Sel
				}
				if ident, ok := of.(*ast.Ident); ok && regexp.MustCompile(`(?i)^(s?log|logger)$`).MatchString(ident.Name) {
					t.Errorf("%s logs a line that is not in internal/report: define it there", set.Position(call.Pos()))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls < 20 {
		t.Errorf("only %d lines are written: did the form of the calls change?", calls)
	}
	set := token.NewFileSet()
	causes, err := parser.ParseFile(set, "causes.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(causes, func(n ast.Node) bool { // lines that the engine writes for a cause
		if of, ok := n.(*ast.UnaryExpr); ok {
			if line, ok := of.X.(*ast.Ident); ok {
				used[line.Name] = true
			}
		}
		return true
	})
	f, err := parser.ParseFile(set, "conditions.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, s := range All {
		listed += len(s.Lines)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			name := spec.(*ast.ValueSpec).Names[0].Name
			if name == "All" {
				continue
			}
			listed--
			if !used[name] {
				t.Errorf("no code writes the line %s", name)
			}
		}
	}
	if listed != 0 {
		t.Errorf("the number of lines in All is wrong by %d", listed)
	}
}

// A line with missing or unknown attributes is detected.
func TestUndeclared(t *testing.T) {
	defer func(f func(*Line, string)) { Undeclared = f }(Undeclared)
	var wrong []string
	Undeclared = func(_ *Line, attr string) { wrong = append(wrong, attr) }
	l := Line{Level: slog.LevelWarn, Text: "text", Attrs: "a b?"}
	for _, c := range []struct {
		args []any
		want []string
	}{
		{[]any{"a", 1}, nil}, {[]any{"a", 1, "b", 2, LeftOut, 3}, nil}, {[]any{"b", 2}, []string{"a"}}, {[]any{"a", 1, "c", 2}, []string{"c"}}, {[]any{1, 1, "a", 2}, []string{""}},
	} {
		wrong = nil
		var out bytes.Buffer
		l.Log(slog.New(slog.NewTextHandler(&out, nil)), c.args...)
		if !reflect.DeepEqual(wrong, c.want) || !strings.Contains(out.String(), "level=WARN msg=text") {
			t.Errorf("%v: wrong is %q, want %q; %s", c.args, wrong, c.want, &out)
		}
	}
	var out bytes.Buffer
	l.Log(slog.New(slog.NewTextHandler(&out, nil)), "a", 1234567891*time.Nanosecond)
	if !strings.Contains(out.String(), "a=1.235s") {
		t.Errorf("a duration is not rounded: %s", &out)
	}
	out.Reset()
	if l.Debug(slog.New(slog.NewTextHandler(&out, nil)), "a", 1); out.Len() > 0 {
		t.Errorf("a line at level debug is logged: %s", &out)
	}
}
