package losses

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const width = 100

func (r *Report) WriteText(w io.Writer) error {
	t := &text{zone: r.To.Location()}
	for _, part := range []struct {
		kind  Kind
		title string
	}{
		{Lost, "LOST PERMANENTLY"},
		{Happened, "OTHER EVENTS, with possible losses"},
		{Hint, "HINTS, without losses so far"},
		{Dropped, "DROPPED PACKETS"},
	} {
		found := r.Of(part.kind)
		if len(found) == 0 {
			continue
		}
		t.line("%s", part.title)
		for i := range found {
			t.finding(&found[i])
		}
		t.line("")
	}
	t.line("%s", r.Verdict())
	for _, line := range r.Coverage() {
		t.line("%s", line)
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

func (r *Report) Verdict() string {
	gaps, messages, unknown := r.Messages()
	over := fmt.Sprintf("in the last %s, in %s", span(r.To.Sub(r.From)), plural(len(r.Processes), "process", "processes"))
	var s string
	switch {
	case len(r.Processes) == 0:
		return "No process could be read."
	case gaps == 0 && r.Repairs.Lost > 0:
		s = fmt.Sprintf("LOST permanently: %s, %s, not yet reported to a subscription: subscriptions to them report a gap when they read further",
			plural(r.Repairs.Lost, "packet", "packets"), over)
	case gaps == 0:
		s = "Nothing was lost permanently " + over
	case unknown == gaps:
		s = fmt.Sprintf("LOST permanently: %s, number of messages unknown, %s", plural(gaps, "gap", "gaps"), over)
	default:
		s = fmt.Sprintf("LOST permanently: %s in %s, %s", plural(messages, "message", "messages"), plural(gaps, "gap", "gaps"), over)
		if unknown > 0 {
			s += fmt.Sprintf(", plus %s of unknown size", plural(unknown, "gap", "gaps"))
		}
	}
	if r.Repairs.Missing > 0 {
		s += fmt.Sprintf("; %s missing, %s repaired, %s late, %s given up", plural(r.Repairs.Missing, "packet was", "packets were"),
			thousands(r.Repairs.Repaired), thousands(r.Repairs.Late), thousands(r.Repairs.Lost))
	}
	return s + "."
}

func (r *Report) Coverage() (lines []string) {
	var whole []string
	for _, p := range r.Processes {
		name := fmt.Sprintf("%s (%s)", p.Name, plural(p.Buses, "bus", "buses"))
		if late := p.From.Sub(r.From); late > time.Second {
			name += " only for " + span(r.To.Sub(p.From))
		}
		whole = append(whole, name)
	}
	if len(whole) > 0 {
		lines = append(lines, "Processes read: "+strings.Join(whole, ", ")+".")
	}
	for _, u := range r.Unread {
		lines = append(lines, "Not read: "+u+".")
	}
	if r.Unlisted > 0 {
		lines = append(lines, fmt.Sprintf("%d losses are only in the sums, because their causes were very frequent.", r.Unlisted))
	}
	return lines
}

type text struct {
	b    strings.Builder
	zone *time.Location
}

func (t *text) line(format string, args ...any) {
	t.b.WriteString(strings.TrimRight(Printable(fmt.Sprintf(format, args...)), " ") + "\n")
}

func (t *text) finding(f *Finding) {
	t.line("")
	t.line("  %s  %s%s", t.when(f), f.Cause, f.Title())
	t.row("from", f.Publisher)
	if len(f.Sources) > 1 {
		t.row("from", strings.Join(f.Sources, ", "))
	}
	t.row("peer", f.Subscriber)
	t.row("in", f.Where())
	t.row("why", f.Why)
	t.row("do", f.Do)
}

func (t *text) when(f *Finding) string {
	form := "15:04:05"
	if f.Kind == Dropped {
		form = "15:04"
	}
	first, last := f.First.In(t.zone).Format(form), f.Last.In(t.zone).Format(form)
	if first == last {
		return first
	}
	return first + " to " + last
}

func (f *Finding) Title() string {
	switch {
	case f.Kind == Dropped && f.Cause == "fabric":
		return ": " + plural(f.Packets, "packet missing", "packets missing")
	case f.Kind == Dropped: // heartbeats, copies and packets of others among them
		return ": " + plural(f.Packets, "datagram", "datagrams")
	case f.Kind == Hint:
		return ""
	case f.Kind == Happened:
		return f.happened()
	}
	s := ": " + plural(f.Messages, "message", "messages")
	if f.Messages == 0 {
		s = ": messages"
	}
	if len(f.Topics) > 0 {
		s += " of " + andMore(strings.Join(f.Topics, ", "), f.OtherTopics)
	}
	if f.Messages == 0 {
		s += ", number unknown"
	}
	if f.Times > 1 {
		s += fmt.Sprintf(", in %d gaps", f.Times)
	}
	return s
}

func andMore(list string, more int) string {
	if more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

func (f *Finding) happened() (s string) {
	sep := ": "
	part := func(yes bool, format string, args ...any) {
		if yes {
			s += sep + fmt.Sprintf(format, args...)
			sep = ", "
		}
	}
	part(f.Times > 1, "%d times", f.Times)
	part(f.For > 0, "for %v", seconds(f.For).Round(100*time.Millisecond))
	part(f.Behind > 0 && f.Subscriber != "", "%s behind", plural(f.Behind, "packet", "packets"))
	return s
}

func (t *text) row(name, value string) {
	if value == "" {
		return
	}
	const indent = 11
	left := "    " + name
	for _, part := range Wrap(Printable(value), width-indent) {
		t.line("%-*s%s", indent, left, part)
		left = ""
	}
}

// Wrap splits text into lines of at most so many columns, counting one column for each character.
func Wrap(text string, columns int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Printable escapes characters such as terminal escapes, as in a Go string: names come from other hosts.
func Printable(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && n == 1 || !strconv.IsPrint(r) {
			quoted := strconv.Quote(text[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}

func plural[T int | uint64](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%s %s", thousands(n), many)
}

func thousands[T int | uint64](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func span(d time.Duration) string {
	switch {
	case d >= time.Hour && d < time.Hour+time.Minute:
		return "hour"
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}

func (f *Finding) Where() string {
	where := f.Process
	for _, x := range [][2]string{{"bus", f.Bus}, {"subscription", f.Subscription}, {"group", f.Group}, {"leg", f.Leg}} {
		if x[1] != "" {
			where += ", " + x[0] + " " + x[1]
		}
	}
	return where
}
