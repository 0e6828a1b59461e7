package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// How a receiver fetches packets sent before it joined. docs/protocol §4.6 to §4.8.

// history is the part of a stream sent before the receiver joined, while the receiver fetches it. It fetches the newest
// packets first, because the oldest may leave the publisher's window meanwhile. If a packet cannot be fetched, the
// stream begins behind it. So the history has no gaps, and nothing is delivered before it is complete.
//
//	first ≤ next ≤ at ≤ end
//	          └ not requested yet ┘└ requested or received ┘
type history struct {
	open  bool
	first uint64       // the publisher's trail in its first heartbeat
	end   uint64       // the publisher's lead in that heartbeat
	at    uint64       // all packets from at up to end were requested or received
	asked int          // of these, the missing ones
	low   uint64       // no packet from next up to low is missing
	cause events.Cause // why the stream begins behind first
	seek  seek
	ahead ahead
}

// ahead reads the packets that wait behind the history, up to the end of an index round, because the topics of the
// history must be known before it is delivered.
type ahead struct {
	at     uint64 // packets from the history's end up to here were read
	comes  bool   // a round has begun that covers the history
	listed bool   // such a round was read
	waits  bool   // only the round is missing
	since  upTime // since when the history is fetched
}

// historyAhead is how many packets of its history a receiver requests at a time: the publisher also repairs for others.
const historyAhead = 64

// Begun reports whether the receiver fetches or has fetched packets that the publisher sent before it joined
// (ReceiverConfig.FromWindow).
func (st *Stream) Begun() bool { return st.win.history.end > 0 }

// Continued reports whether the stream was removed before, and continues where it stopped then.
func (st *Stream) Continued() bool { return st.life.continued }

// before makes a new stream begin with the packets that its publisher can still repair.
func (st *Stream) before(at extent) {
	st.win.history.end = at.lead
	st.start, st.next, st.tracked, st.high = at.trail, at.trail, at.trail, at.trail
}

// fetch begins to fetch the packets between the stream's start and lead.
func (st *Stream) fetch(now Instant, lead uint64) {
	if lead == st.next {
		return
	}
	h := &st.win.history
	*h = history{open: true, first: st.start, end: lead, at: lead, low: st.next, seek: newSeek(st.r.cfg.Wanted != nil),
		ahead: ahead{at: lead, since: st.r.up(now)}}
	keep := uint64(0) // the rest of the window is for packets sent meanwhile
	if st.window() {
		keep = st.win.span - st.win.span/4
	}
	if lead-st.next > keep {
		st.next, h.cause = lead-keep, events.CauseOverrun
	}
	st.win.entries.reach(st.next, st.next, lead)
	for seq := st.next; seq < lead; seq++ {
		*st.win.entries.at(seq) = entry{state: entryMissing, since: neverUp, due: Never}
	}
	st.nak.addMissing(int(lead-st.next), Never, Never)
	st.tracked, st.high = lead, lead
	st.advance(now)
}

// ask requests more packets when at most half of historyAhead is outstanding. It waits for the first status, by which
// the publisher knows the requester.
func (h *history) ask(st *Stream, now Instant) {
	if !h.open || st.report.sent == 0 || h.asked > historyAhead/2 {
		return
	}
	any := false
	for ; h.at > st.next && h.asked < historyAhead; h.at-- {
		if e := st.win.entries.at(h.at - 1); e.state == entryMissing {
			e.since, e.due = st.r.up(now), st.r.judged(now)
			h.asked++
			any = true
		}
	}
	if any {
		st.nak.addMissing(0, st.r.judged(now), now.Add(st.r.cfg.Deadline))
	}
}

// came reports whether a missing packet that arrived is part of the history.
func (h *history) came(st *Stream, now Instant, seq uint64) bool {
	if !h.open || seq >= h.end {
		return false
	}
	st.r.stats.History++
	if seq >= h.at {
		h.asked = max(0, h.asked-1)
		h.ask(st, now)
	}
	return true
}

// from makes the stream begin with packet seq of its history, or later: no packet before it is wanted.
func (h *history) from(st *Stream, now Instant, seq uint64) {
	if h.first, st.start = seq, seq; seq > st.next {
		h.cause = events.CauseNone
		h.pass(st, seq)
	}
	st.advance(now)
}

// pass drops the packets before seq, received or missing.
func (h *history) pass(st *Stream, seq uint64) {
	for ; st.next < seq; st.next++ {
		switch e := st.win.entries.at(st.next); e.state {
		case entryMissing:
			st.nak.settled()
			if st.next >= h.at {
				h.asked = max(0, h.asked-1)
			}
			e.state = entryEmpty
		case entryHeld, entryLent:
			st.drop(e)
		}
	}
	h.at = max(h.at, st.next)
}

// giveUp gives up the missing packets below end: the stream begins behind the last of them.
func (h *history) giveUp(st *Stream, now Instant, end uint64, cause events.Cause) {
	if !h.open {
		return
	}
	begin := min(end, h.end)
	for begin > st.next && st.win.entries.at(begin-1).state != entryMissing {
		begin--
	}
	if begin <= st.next {
		return
	}
	if h.cause == events.CauseNone || h.cause == events.CauseGone {
		h.cause = cause
	}
	h.pass(st, begin)
	h.ask(st, now)
}

// settled reports whether the history is complete: each packet was received or given up. It then sets where the stream
// begins. Packets of the history that left the publisher's window are no gap, as if the receiver had joined later.
// Packets given up for another cause are a gap, and so are all if the history began with sequence 0, from which
// messages count.
func (h *history) settled(st *Stream, now Instant) bool {
	if h.open {
		h.ahead.read(st, now)
	}
	if !h.open {
		return true
	}
	for h.low = max(h.low, st.next); h.low < h.end; h.low++ {
		if st.win.entries.at(h.low).state == entryMissing {
			return false
		}
	}
	if h.ahead.waits = !h.ahead.over(st, now); h.ahead.waits || !st.out.Room() {
		st.stalled = true
		return false
	}
	h.open, h.seek = false, seek{}
	if !h.ahead.listed {
		st.topics.index.at = h.first // packets are inspected when they are delivered
	}
	st.report.by(now) // from now on the publisher waits for this receiver
	if begin := st.next; begin > h.first && (h.cause != events.CauseGone || h.first == 0) {
		st.next = h.first
		st.skip(begin-h.first, h.cause)
		st.r.historyLost += begin - h.first
	} else {
		st.start = begin
	}
	return true
}

// read reads the next packets behind the history.
func (a *ahead) read(st *Stream, now Instant) {
	for ; a.at < st.tracked && !a.listed; a.at++ {
		switch e := st.win.entries.at(a.at); {
		case e.state == entryMissing:
			return
		case e.state == entryGone:
			st.lostContents(a.at, a.at+1)
			a.comes = false
		case e.topics:
			st.inspect(a.at, st.runs(e))
		}
	}
	if s := &st.win.history.seek; a.listed && s.open() {
		s.settle(st, now)
	}
}

// round processes an index run behind the history.
func (a *ahead) round(st *Stream, b *wire.Index, since uint64, answers bool) {
	if b.Marks&wire.IndexBegins != 0 {
		a.comes = answers || b.Marks&wire.IndexAll != 0 && since <= st.win.history.first
		st.win.history.seek.totals = nil
	} else if b.Marks&wire.IndexEnds != 0 {
		a.listed = a.listed || a.comes
	}
}

// over reports whether the history can be delivered: its topics are known, as far as names matter, or not waited for
// any more.
func (a *ahead) over(st *Stream, now Instant) bool {
	return a.listed || st.r.names.to == nil || st.topics.index.known || st.life.down ||
		st.life.ended && a.at >= st.life.endAt || st.r.judgedUp(now) >= st.r.expiry(a.since, st.r.cfg.Deadline)
}

// seek determines how much of its history a stream needs if its topics begin with certain messages
// (ReceiverConfig.Wanted). The receiver fetches the history from the newest packet down, so the search ends when each
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
func (s *seek) came(st *Stream, now Instant, seq uint64, b []byte) {
	p := st.readable(b)
	if p == nil {
		return
	}
	any := false
	for run, rest, ok := wire.NextRun(PacketData(p)); ok; run, rest, ok = wire.NextRun(rest) {
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
func (s *seek) settle(st *Stream, now Instant) {
	h := &st.win.history
	begin, ok := s.listed(st)
	if !ok && st.r.names.to == nil {
		begin, ok = s.named(st)
	}
	if !ok || !h.open || !s.open() {
		return
	}
	s.begun = nil
	h.from(st, now, begin)
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
	h := &st.win.history
	if !h.ahead.listed || len(s.totals) > maxSought {
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
func (st *Stream) wantedFrom(topic uint64) uint64 { return st.r.cfg.Wanted(st.Instance, topic) }
