package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// UnsentMessages is the number of messages that have a sequence but were never sent.
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

// endsIn is the number of messages that end in a run.
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

// UnsentMessages is the number of the writer's messages without a sequence.
func (w *Writer) UnsentMessages() (n uint64) {
	if w.b == nil {
		return 0
	}
	for _, r := range w.runs[w.assignedRuns:] {
		n += uint64(r.messages)
	}
	if w.packet != nil && w.topic != nil {
		n += uint64(w.messages) - uint64(w.runs[len(w.runs)-1].messages) // endRun will record these
	}
	return n
}
