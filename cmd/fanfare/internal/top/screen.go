package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/plural"
)

type Screen struct {
	Width, Height int
	Colour        bool
	figures       *Figures // nil: none yet
	waiting       *Figures // newest, while paused
	failure       string   // why there are no newer figures
	where         string   // where was looked, for people

	view     int
	sort     map[int]int // column, by view; those without are sorted as the table says
	reverse  map[int]bool
	filter   string
	typing   bool // the filter is being written
	paused   bool
	selected map[int]string // key of a row, by view
	detail   bool           // of the selected row
	scroll   int            // lines of the detail
	help     bool
	page     int // rows that fit, as of the last Text
}

func NewScreen(where string) *Screen {
	return &Screen{Width: 80, Height: 24, where: where, sort: make(map[int]int), reverse: make(map[int]bool),
		selected: make(map[int]string)}
}

func (s *Screen) Show(f *Figures) {
	s.failure = ""
	if s.paused && s.figures != nil {
		s.waiting = f
		return
	}
	s.figures = f
}

func (s *Screen) Fail(err error) { s.failure = printable(err.Error()) }

func (s *Screen) by(t *table) int {
	if by, chosen := s.sort[s.view]; chosen {
		return by
	}
	return t.sort
}

func (s *Screen) rows(t *table) (rows []row, selected int) {
	rows = matching(t.sorted(s.by(t), s.reverse[s.view]), s.filter)
	selected = slices.IndexFunc(rows, func(r row) bool { return r.key == s.selected[s.view] })
	return rows, max(0, selected)
}

// Text is the screen as lines, Height of them at most and Width columns wide at most.
func (s *Screen) Text() string {
	w := writer{width: s.Width, colour: s.Colour}
	body := s.Height - 6
	s.page = max(1, body)
	switch {
	case s.help:
		w.lines(strings.Split(strings.TrimSpace(helpText), "\n"))
	case s.figures == nil:
		w.line(bold, "fanfare top")
		w.wrap(cmp.Or(s.failure, "looking …"))
	default:
		s.header(&w)
		s.tabs(&w)
		t := s.figures.table(s.view)
		rows, at := s.rows(t)
		switch {
		case s.figures.Total.Processes == 0:
			w.wrap(NoProcess(s.where))
		case len(rows) == 0 && s.filter != "":
			w.line(plain, fmt.Sprintf("none of %d %s has %q in it: Esc shows all", len(t.rows), t.name, s.filter))
		case len(rows) == 0:
			w.line(plain, t.empty)
		case s.detail:
			s.details(&w, rows[at], s.page+1)
		default:
			s.table(&w, t, rows, at)
		}
	}
	w.fill(s.Height - 1)
	w.line(dim, s.footer())
	return w.text(s.Height)
}

func (s *Screen) header(w *writer) {
	f := s.figures
	t := &f.Total
	title := fmt.Sprintf("fanfare top · %s · %s, %s · %s", cmp.Or(printable(f.Host.Name), "this host"), count(t.Processes, "process"), count(len(f.Buses), "bus"), clock(f.Time))
	if s.paused {
		title += " · PAUSED"
	}
	w.line(bold, title)
	p99 := func(r Rate) string {
		if !(r > 0) {
			return ""
		}
		return ", p99 " + microText(float64(r))
	}
	w.line(plain, fmt.Sprintf("out %s msg/s %s/s · in %s msg/s %s/s%s · lost %s · missing %s/s · repaired %s/s%s",
		si(float64(t.SentRate)), bytesText(float64(t.SentBytesRate)),
		si(float64(t.DeliveredRate)), bytesText(float64(t.ReceivedBytes)), p99(t.DeliveryP99),
		lostText(t), si(float64(t.MissingRate)), si(float64(t.RepairRate)), p99(t.RepairP99)))
	level, what := f.worst()
	w.line([]style{plain, yellow, red}[level], what)
}

func lostText(t *Total) string {
	text := si(float64(t.LostMessages)) + " msg"
	if t.LostMessages == 0 && t.Gaps > 0 {
		text = "? msg (" + count(t.Gaps, "gap") + ")"
	}
	return text + " " + si(float64(t.Lost)) + " pkt"
}

func (s *Screen) tabs(w *writer) {
	var all []string
	total := 0
	rows, others := s.figures.counts()
	for i, view := range viewNames {
		name := fmt.Sprintf("%d %s", i+1, view)
		if n := rows[i]; n > 0 {
			name += fmt.Sprintf(" %d", n)
		}
		if i == 0 && others > 0 {
			name += fmt.Sprintf(" of %d", rows[i]+others)
		}
		if i == s.view {
			name = "[" + name + "]"
		} else {
			name = " " + name + " "
		}
		all = append(all, name)
		total += width(name)
	}
	if total > s.Width {
		w.line(reversed, fmt.Sprintf("‹ %s ›", strings.TrimSpace(all[s.view])))
		return
	}
	w.line(reversed, fit(strings.Join(all, ""), s.Width, false))
}

func (s *Screen) table(w *writer, t *table, rows []row, at int) {
	by, page := s.by(t), s.page
	top := min(max(0, at-page/2), max(0, len(rows)-page))
	shown := rows[top:min(len(rows), top+page)]
	cols := layout(t, shown, s.Width-2, by)
	w.line(bold, "  "+joined(cols, func(i int) string { return header(t, i, by, s.reverse[s.view]) }))
	for i := range shown {
		r := &shown[i]
		mark, st := "  ", []style{plain, yellow, red}[r.level]
		if r.level > calm {
			mark = "! "
		}
		if top+i == at {
			mark, st = "> ", reversed
		}
		w.line(st, mark+joined(cols, func(c int) string { return r.cells[c].text }))
	}
}

func header(t *table, i, by int, reverse bool) string {
	name := t.columns[i].name
	if i != by {
		return name
	}
	return name + map[bool]string{false: "↓", true: "↑"}[reverse]
}

type shownColumn struct {
	index, width int
	right        bool
}

const minTextWidth = 22 // minimum width of a text column; others are left out for it

func layout(t *table, rows []row, room, by int) []shownColumn {
	var cols []shownColumn
	for i, c := range t.columns {
		w := width(header(t, i, by, false))
		for _, r := range rows {
			w = max(w, width(r.cells[i].text))
		}
		if c.maxWidth > 0 {
			w = min(w, c.maxWidth)
		}
		cols = append(cols, shownColumn{i, w, c.number})
	}
	total := func(narrowest bool) (n int) {
		for _, c := range cols {
			if w := c.width; narrowest && !c.right {
				n += min(w, minTextWidth)
			} else {
				n += w
			}
		}
		return n + 2*(len(cols)-1)
	}
	for total(true) > room {
		worst := -1
		for i, c := range cols {
			if rank := t.columns[c.index].rank; rank > 0 && (worst < 0 || rank >= t.columns[cols[worst].index].rank) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		cols = slices.Delete(cols, worst, worst+1)
	}
	for over := total(false) - room; over > 0; over-- {
		widest := -1
		for i, c := range cols {
			if !c.right && c.width > 3 && (widest < 0 || c.width > cols[widest].width) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		cols[widest].width--
	}
	return cols
}

func joined(cols []shownColumn, cell func(index int) string) string {
	var parts []string
	for _, c := range cols {
		parts = append(parts, fit(cell(c.index), c.width, c.right))
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

func (s *Screen) details(w *writer, r row, room int) {
	lines := detailLines(r.detail(), s.Width)
	s.scroll = min(s.scroll, max(0, len(lines)-room))
	w.lines(lines[s.scroll:min(len(lines), s.scroll+room)])
}

func detailLines(detail [][2]string, columns int) (lines []string) {
	left := 0
	for _, l := range detail {
		left = max(left, min(width(l[0]), 28))
	}
	for _, l := range detail {
		name := fit(l[0], left, false)
		for _, part := range losses.Wrap(l[1], max(20, columns-left-2)) {
			lines = append(lines, strings.TrimRight(name+"  "+part, " "))
			name = strings.Repeat(" ", left)
		}
	}
	return lines
}

func (s *Screen) footer() string {
	switch {
	case s.typing:
		return "filter: " + s.filter + "▏  Enter keeps it, Esc drops it"
	case s.help:
		return "any key goes back"
	case s.failure != "" && s.figures != nil:
		return "not up to date: " + s.failure
	case s.detail:
		return "↑↓ scroll · Esc back · p pause · q quit"
	case s.filter != "":
		return fmt.Sprintf("only with %q: Esc shows all · ↑↓ choose · Enter detail · q quit", s.filter)
	}
	return "Tab view · ↑↓ choose · Enter detail · s sort · r reverse · / filter · p pause · ? help · q quit"
}

func NoProcess(where string) string {
	return fmt.Sprintf("No process of this user has a bus that can be looked at (in %s). Start one, such as: fanfare sub -t 'udp://?iface=lo' greetings. "+
		"Not shown are buses of mem:// and sim://, those with Config.Inspect off, and processes with FANFARE_INSPECT=off. "+
		"For what other hosts publish: fanfare ls -t URL.", where)
}

const helpText = `
fanfare top: keys

  Tab, Shift-Tab, 1-8   another view: topics, streams, subscribers, groups, losses,
                        buses, legs, events
  ↑ ↓ j k PgUp PgDn     choose a row
  Home End              the first, the last
  Enter                 all about the row; Esc goes back
  s S                   sort by the next column, by the one before
  r                     the other way round
  /                     show only rows with a text; Esc shows all
  p, Space              pause, and go on
  q, Ctrl-C             quit

! marks what is to be looked at, > the row that is chosen. Rates are those of the last
interval; all other figures count since a bus was opened.
`

func count[T int | int64 | uint64](n T, noun string) string { return plural.N(n, noun) }

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

func (w *writer) wrap(text string) { w.lines(losses.Wrap(text, w.width)) }

func (w *writer) fill(n int) {
	for len(w.out) < n {
		w.out = append(w.out, "")
	}
	w.out = w.out[:max(0, min(len(w.out), n))]
}

func (w *writer) text(n int) string { return strings.Join(w.out[max(0, len(w.out)-max(n, 1)):], "\n") }

// Key takes in a key by the name that bubbletea gives it, and the text that it types. It
// reports whether that ends the program.
func (s *Screen) Key(name, text string) (quit bool) {
	switch {
	case name == "ctrl+c":
		return true
	case s.typing:
		s.typed(name, text)
		return false
	case s.help:
		s.help = false
		return false
	}
	switch name {
	case "q":
		return true
	case "?", "h", "f1":
		s.help = true
	case "tab", "right", "l":
		s.turnTo(s.view + 1)
	case "shift+tab", "left":
		s.turnTo(s.view - 1)
	case "1", "2", "3", "4", "5", "6", "7", "8":
		s.turnTo(int(name[0] - '1'))
	case "p", "space", " ":
		s.pause()
	case "/":
		s.typing, s.detail = true, false
	case "esc", "backspace":
		if s.detail {
			s.detail = false
		} else {
			s.filter = ""
		}
	case "s":
		s.sortBy(1)
	case "S", "shift+s":
		s.sortBy(-1)
	case "r":
		s.reverse[s.view] = !s.reverse[s.view]
	case "enter":
		s.detail, s.scroll = s.figures != nil, 0
	default:
		s.move(name)
	}
	return false
}

func (s *Screen) typed(name, text string) {
	switch {
	case name == "enter":
		s.typing = false
	case name == "esc":
		s.typing, s.filter = false, ""
	case name == "backspace" && s.filter != "":
		r := []rune(s.filter)
		s.filter = string(r[:len(r)-1])
	case name == "ctrl+u":
		s.filter = ""
	case text != "" && len(s.filter) < 64:
		s.filter += printable(text)
	}
}

func (s *Screen) turnTo(view int) {
	s.view = (view + len(viewNames)) % len(viewNames)
	s.detail = false
}

func (s *Screen) pause() {
	s.paused = !s.paused
	if !s.paused && s.waiting != nil {
		s.figures, s.waiting = s.waiting, nil
	}
}

func (s *Screen) sortBy(step int) {
	if s.figures == nil {
		return
	}
	t := s.figures.table(s.view)
	s.sort[s.view] = (s.by(t) + step + len(t.columns)) % len(t.columns)
}

func (s *Screen) move(name string) {
	step := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -s.page, "pgdown": s.page, "home": -1 << 30, "g": -1 << 30, "end": 1 << 30, "G": 1 << 30}[name]
	if step == 0 || s.figures == nil {
		return
	}
	if s.detail {
		s.scroll = max(0, min(s.scroll+step, 1<<20))
		return
	}
	t := s.figures.table(s.view)
	rows, at := s.rows(t)
	if len(rows) == 0 {
		return
	}
	s.selected[s.view] = rows[max(0, min(at+step, len(rows)-1))].key
}

func (s *Screen) Start(view, filter string) {
	s.view, s.filter = max(0, slices.Index(viewNames, view)), filter
}
