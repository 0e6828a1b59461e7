package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// seek determines how much of its history a stream needs if its topics begin with certain messages
// (ReceiverConfig.Wanted). The receiver fetches the history from the newest packet down, so the search ends when each
// of these topics has reached its first message, or needs no history. docs/protocol §9.8.
type seek struct {
	// begun maps a topic to the newest packet from which on its first wanted message, or an earlier one, begins. It holds
	// at most maxPendingTotals topics: beyond that, totals cannot end the search. Nil: all of the history is needed, or
	// the search is over.
	begun map[uint64]uint64
	last  bool   // the last packet of the history has arrived
	under uint64 // topic of the message that continues behind it, if any
}

func newSeek(wanted bool) seek {
	if !wanted {
		return seek{}
	}
	return seek{begun: make(map[uint64]uint64)}
}

// open reports whether the search is still running.
func (s *seek) open() bool { return s.begun != nil }

// came inspects a packet of the history that arrived.
func (s *seek) came(st *Stream, now Instant, seq uint64, b []byte) {
	p := st.readable(b)
	if p == nil {
		return
	}
	any := seq == st.win.history.end-1
	s.last = s.last || any
	for run, rest, ok := wire.NextRun(PacketData(p)); ok; run, rest, ok = wire.NextRun(rest) {
		if run.Kind >= wire.RunTopic {
			continue
		}
		if seq == st.win.history.end-1 && run.Kind == wire.RunFragment && run.Messages() == 0 {
			s.under = run.Topic
		}
		number := st.wantedFrom(run.Topic)
		if run.Number > number || run.Number == number && run.Continues() || !st.r.mayWant(run.Topic) {
			continue
		}
		if at, has := s.begun[run.Topic]; !has && len(s.begun) < maxPendingTotals || seq > at && has {
			s.begun[run.Topic] = seq
			any = true
		}
	}
	if any {
		s.settle(st, now)
	}
}

// settle ends the search if no topic needs earlier packets.
func (s *seek) settle(st *Stream, now Instant) {
	h := &st.win.history
	begin, ok := s.announced(st)
	if !ok && st.r.names.to == nil {
		begin, ok = s.named(st)
	}
	if !ok || !h.open || !s.open() {
		return
	}
	s.begun = nil
	h.from(st, now, begin)
}

// announced is where the stream begins, if the publisher has announced all its topics as of the end of the history or
// later.
func (s *seek) announced(st *Stream) (begin uint64, ok bool) {
	h, t := &st.win.history, &st.totals
	if !t.complete() || t.asOf < h.end || len(t.pending) == maxPendingTotals {
		return 0, false
	}
	begin = h.end
	for _, x := range t.pending {
		if x.Complete {
			break
		}
		// A total does not count an incomplete message, which may have begun in the history.
		if n := st.wantedFrom(x.ID); x.Next < n || x.Next == n && s.last && s.under != x.ID {
			continue // the topic needs no history
		}
		at, has := s.begun[x.ID]
		if !has {
			return 0, false
		}
		begin = min(begin, at)
	}
	return begin, true
}

// named is where the stream begins, if all topics wanted by name have reached their first messages.
func (s *seek) named(st *Stream) (begin uint64, ok bool) {
	begin = st.win.history.end
	for id := range st.r.wants {
		at, has := s.begun[id]
		if !has {
			return 0, false
		}
		begin = min(begin, at)
	}
	return begin, true
}

// wantedFrom is the number of the first wanted message of a topic.
func (st *Stream) wantedFrom(topic uint64) uint64 {
	return st.r.cfg.Wanted(st.Instance, topic)
}
