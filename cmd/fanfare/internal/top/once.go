package top

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Write writes figures as text: a table for each view that has rows, or one view alone.
func Write(w io.Writer, f *Figures, view, filter string, columns int) error {
	s := NewScreen("")
	s.figures, s.Width = f, columns
	out := writer{width: columns}
	s.header(&out)
	_, others := f.counts()
	for i, name := range viewNames {
		if view != "" && name != view {
			continue
		}
		t := f.table(i)
		rows := matching(t.sorted(t.sort, false), filter)
		s.view = i
		if len(rows) == 0 {
			if view != "" {
				out.line(plain, t.empty)
			}
			continue
		}
		out.line(plain, "")
		out.line(plain, strings.ToUpper(t.name))
		s.page = len(rows)
		s.table(&out, t, rows, -1)
		if i == 0 && others > 0 {
			out.line(plain, fmt.Sprintf("  and %d more, with fewer messages: a process lists %d topics of a bus at most", others, inspect.MaxTopics))
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(out.out, "\n"))
	return err
}

// WriteJSON writes figures as one line.
func WriteJSON(w io.Writer, f *Figures) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(f)
}

// Views are the names of all views.
func Views() []string { return append([]string(nil), viewNames...) }
