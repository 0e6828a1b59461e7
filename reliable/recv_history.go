package reliable

import "github.com/fanfaremq/fanfare/pubsub/events"

// How a receiver gets what was sent before it came. docs/protocol §4.6 to §4.8.

// history is the part of a stream that was sent before its receiver came, while that fetches it: the newest packets
// first, for the oldest may leave the publisher's window meanwhile. What cannot be had makes the stream begin behind
// it. So there is no loss within the history, and nothing is delivered before all of it is there.
//
//	first ≤ next ≤ at ≤ end
//	          └ not asked for yet ┘└ asked for, or here ┘
type history struct {
	open  bool
	first uint64       // the publisher's trail when the stream was heard first
	end   uint64       // and its lead
	at    uint64       // all from here on were asked for, or have come
	asked int          // of them, those that are missing
	low   uint64       // none between next and this is missing
	cause events.Cause // why the stream begins behind first
	seek  seek
}

// historyAhead is how many packets of its history a receiver asks for at a time: the
// publisher has other things to repair.
const historyAhead = 64

// Begun reports whether the publisher had sent something before this receiver came, which
// that was to have as far as it could (ReceiverConfig.FromWindow).
func (st *Stream) Begun() bool { return st.win.history.end > 0 }

// Continued reports whether the stream goes on where it stood when it was removed.
func (st *Stream) Continued() bool { return st.life.continued }

// before makes a stream that is new begin with what its publisher can still send again.
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
	*h = history{open: true, first: st.start, end: lead, at: lead, low: st.next, seek: newSeek(st.r.cfg.Wanted != nil)}
	keep := uint64(0) // the rest is for what is sent meanwhile
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
	st.nak.lacks(int(lead-st.next), Never, Never)
	st.tracked, st.high = lead, lead
	st.advance(now)
}

// ask requests more when less than half of the requested packets is outstanding. The first status goes before, so that
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
		st.nak.lacks(0, st.r.judged(now), now.Add(st.r.cfg.Deadline))
	}
}

// came reports whether a missing packet that has come is of the history.
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

// from makes the stream begin with a packet of its history, if it is to begin before: nothing before that is wanted.
func (h *history) from(st *Stream, now Instant, seq uint64) {
	if h.first, st.start = seq, seq; seq > st.next {
		h.cause = events.CauseNone
		h.pass(st, seq)
	}
	st.advance(now)
}

// pass drops what is before packet seq, or missing there.
func (h *history) pass(st *Stream, seq uint64) {
	for ; st.next < seq; st.next++ {
		switch e := st.win.entries.at(st.next); e.state {
		case entryMissing:
			st.nak.found()
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

// giveUp gives up the packets below end that are missing: the stream begins behind the last of them.
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

// settled reports whether there is nothing to wait for: all of the history is here or given up. It then says where the
// stream begins. That is where the publisher's window does, or did a moment later; where something else has taken the
// first packets, or it is known which messages were in them, they are a gap.
func (h *history) settled(st *Stream, now Instant) bool {
	if !h.open {
		return true
	}
	for h.low = max(h.low, st.next); h.low < h.end; h.low++ {
		if st.win.entries.at(h.low).state == entryMissing {
			return false
		}
	}
	if !st.out.Room() {
		st.stalled = true
		return false
	}
	h.open, h.seek = false, seek{}
	st.report.by(now) // it is waited for from now on
	if begin := st.next; begin > h.first && (h.cause != events.CauseGone || h.first == 0) {
		st.next = h.first
		st.skip(begin-h.first, h.cause)
		st.r.historyLost += begin - h.first
	} else {
		st.start = begin
	}
	return true
}
