package topics

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// history is the packets sent before the receiver joined, while it fetches them, and those that wait behind them. These
// are read up to the end of an index round, because the topics of the history must be known before it is delivered.
type history struct {
	open       bool
	first, end uint64 // it is from first up to end
	at         uint64 // packets behind the history were read up to here
	comes      bool   // a round has begun that covers the history
	listed     bool   // such a round was read
	seek       seek
}

// Fetch implements reliable.Contents.
func (st *Stream) Fetch(first, end uint64) {
	st.history = history{open: true, first: first, end: end, at: end, seek: newSeek(st.r.wantedFrom != nil)}
}

// Fetched implements reliable.Contents.
func (st *Stream) Fetched() {
	if !st.history.listed {
		st.index.at = st.history.first // packets are inspected when they are delivered
	}
	st.history = history{}
}

// Came implements reliable.Contents.
func (st *Stream) Came(now reliable.Instant, seq uint64, runs []byte) {
	if st.history.seek.open() {
		st.history.seek.came(st, now, seq, runs)
	}
}

// Begin implements reliable.Contents: the topics of the history are known, as far as names matter, or not waited for
// any more.
func (st *Stream) Begin(now reliable.Instant) (ready bool) {
	h := &st.history
	for ; !h.listed; h.at++ {
		p := st.packets.Waiting(now, h.at)
		if p.Lost > 0 {
			st.Lost(h.at, p.Lost)
		} else if !p.Arrived {
			break
		} else if p.Control {
			st.inspect(h.at, p.Runs)
		}
	}
	if h.listed && h.seek.open() {
		h.seek.settle(st, now)
	}
	return h.listed || st.r.names.to == nil || st.index.known || st.packets.EndsBefore(h.at)
}

// round processes an index run behind the history.
func (h *history) round(b *wire.Index, since uint64, answers bool) {
	if b.Marks&wire.IndexBegins != 0 {
		h.comes = answers || b.Marks&wire.IndexAll != 0 && since <= h.first
		h.seek.totals = nil
	} else if b.Marks&wire.IndexEnds != 0 {
		h.listed = h.listed || h.comes
	}
}

// seek determines how much of its history a stream needs if its topics begin with certain messages
// (Receiver.From). The receiver fetches the history from the newest packet down, so the search ends when each
// of these topics has reached its first message, or needs no history. docs/protocol §9.8.
type seek struct {
	// begun maps a topic to the newest packet from which on its first wanted message, or an earlier one, begins. It holds
	// at most maxSought topics: the search then ends without more. Nil: all of the history is needed, or the search is
	// over.
	begun  map[uint64]uint64
	totals map[uint64]uint64 // numbers of topics that the round behind the history states
}

// maxSought bounds the topics of a search.
const maxSought = 1 << 16

func newSeek(wanted bool) seek {
	if !wanted {
		return seek{}
	}
	return seek{begun: make(map[uint64]uint64)}
}

// open reports whether the search is still running.
func (s *seek) open() bool { return s.begun != nil }

// came inspects a packet of the history that arrived.
func (s *seek) came(st *Stream, now reliable.Instant, seq uint64, runs []byte) {
	any := false
	for run, rest, ok := wire.NextRun(runs); ok; run, rest, ok = wire.NextRun(rest) {
		if run.Kind >= wire.RunTopic {
			continue
		}
		number := st.wantedFrom(run.Topic)
		if run.Number > number || run.Number == number && run.Continues() || !st.r.mayWant(run.Topic) {
			continue
		}
		if at, has := s.begun[run.Topic]; !has && len(s.begun) < maxSought || seq > at && has {
			s.begun[run.Topic] = seq
			any = true
		}
	}
	if any {
		s.settle(st, now)
	}
}

// settle ends the search if no topic needs earlier packets.
func (s *seek) settle(st *Stream, now reliable.Instant) {
	h := &st.history
	begin, ok := s.listed(st)
	if !ok && st.r.names.to == nil {
		begin, ok = s.named(st)
	}
	if !ok || !h.open || !s.open() {
		return
	}
	s.begun = nil
	h.first = begin
	st.packets.BeginAt(now, begin)
}

// total records the number of a topic's next message, as the round states.
func (s *seek) total(id, next uint64) {
	if s.totals == nil {
		s.totals = make(map[uint64]uint64)
	}
	s.totals[id] = next
}

// listed is where the stream begins, if the round behind the history was read.
func (s *seek) listed(st *Stream) (begin uint64, ok bool) {
	h := &st.history
	if !h.listed || len(s.totals) > maxSought {
		return 0, false
	}
	begin = h.end
	for id, next := range s.totals {
		if _, ok := st.wantedOf(id); !ok || next <= st.wantedFrom(id) {
			continue // the topic needs no history
		}
		at, has := s.begun[id]
		if !has {
			return 0, false
		}
		begin = min(begin, at)
	}
	return begin, true
}

// named is where the stream begins, if all topics wanted by name have reached their first messages.
func (s *seek) named(st *Stream) (begin uint64, ok bool) {
	begin = st.history.end
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
func (st *Stream) wantedFrom(topic uint64) uint64 { return st.r.wantedFrom(st.packets.Instance, topic) }
