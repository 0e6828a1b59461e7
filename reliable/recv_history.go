package reliable

import (
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
	since upTime       // since when it is fetched
	waits bool         // only packets behind it that the message layer needs are missing
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
	*h = history{open: true, first: st.start, end: lead, at: lead, low: st.next,
		since: st.r.up(now)}
	st.contents.Fetch(st.start, lead)
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
	ready := h.open && st.contents.Begin(now)
	if !h.open {
		return true
	}
	for h.low = max(h.low, st.next); h.low < h.end; h.low++ {
		if st.win.entries.at(h.low).state == entryMissing {
			return false
		}
	}
	h.waits = !ready && !st.life.down && st.r.judgedUp(now) < st.r.expiry(h.since, st.r.cfg.Deadline)
	if h.waits || !st.out.Room() {
		st.stalled = true
		return false
	}
	h.open = false
	st.contents.Fetched()
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
