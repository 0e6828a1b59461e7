package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// UnsentMessages is how many messages have a sequence and were never sent.
func (s *Sender) UnsentMessages() (n uint64) {
	for seq := s.win.sent; seq < s.win.next; seq++ {
		runs := s.runs(seq)
		for {
			run, rest, ok := wire.NextRun(runs)
			if !ok {
				break
			}
			runs = rest
			n += endsIn(run)
		}
	}
	return n
}

// endsIn is how many messages end in a run.
func endsIn(run wire.Run) (n uint64) {
	switch run.Kind {
	case wire.RunFragment:
		if f, err := wire.ParseFragment(run.Body); err == nil && f.Offset+len(f.Bytes) == f.Total {
			n = 1
		}
	case wire.RunMessages:
		for _, body, ok := wire.NextMessage(run.Body); ok; _, body, ok = wire.NextMessage(body) {
			n++
		}
	}
	return n
}

// UnsentMessages is how many messages the writer has that have no sequence yet.
func (w *Writer) UnsentMessages() (n uint64) {
	if w.b == nil {
		return 0
	}
	for _, r := range w.runs[w.assignedRuns:] {
		n += uint64(r.messages)
	}
	if w.packet != nil && w.topic != nil {
		n += uint64(w.messages) - uint64(w.runs[len(w.runs)-1].messages) // that endRun will note
	}
	return n
}
