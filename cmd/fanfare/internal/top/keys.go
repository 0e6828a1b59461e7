package top

import "slices"

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
