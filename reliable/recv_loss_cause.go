package reliable

import "github.com/fanfaremq/fanfare/pubsub/events"

// Packets that are lost permanently, and the cause of each loss.

// abandoned is a sequence beyond the window, below which all packets are given up.
type abandoned struct {
	below uint64
	cause events.Cause
}

// giveUp gives up all missing packets below end. docs/protocol §9.1.
func (st *Stream) giveUp(now Instant, end uint64, cause events.Cause) {
	st.win.history.giveUp(st, now, end, cause)
	for seq := st.next; seq < min(end, st.tracked) && st.nak.missing > 0; seq++ {
		if e := st.win.entries.at(seq); e.state == entryMissing {
			e.state, e.cause = entryGone, cause
			st.nak.found()
		}
	}
	if end > st.tracked && end > st.abandon.below {
		st.abandon.below, st.abandon.cause = end, cause
	}
	st.advance(now)
}

// overrun handles a packet beyond the window: the receiver has fallen so far behind that it must skip packets. One such
// packet may be damaged, so only a second one nearby is accepted. docs/protocol §9.4.
func (st *Stream) overrun(now Instant, seq uint64) {
	if st.guard.impossible(seq, st.high, st.life.down) {
		st.r.stats.Implausible++
		return
	}
	st.r.stats.Overrun++
	if !st.guard.confirmed(seq, 0, st.win.span) {
		return
	}
	st.alive(now)
	st.high = max(st.high, seq)
	st.win.state.overrun()
	// Give up a quarter of the window more than necessary, so that the next packets find room.
	st.giveUp(now, seq+1-st.win.span+st.win.span/4, events.CauseOverrun)
}

// expire gives up packets that have been missing for longer than the deadline. docs/protocol §9.1.
func (st *Stream) expire(now Instant) {
	judged := st.r.judged(now)
	if st.nak.missing == 0 || judged < st.nak.expireAt {
		return
	}
	expired, next := false, Never
	for seq, left := st.next, st.nak.missing; seq < st.tracked && left > 0; seq++ {
		e := st.win.entries.at(seq)
		if e.state != entryMissing {
			continue
		}
		left--
		if e.since == neverUp {
			continue // not requested yet
		}
		if dead := st.r.expiry(e.since, st.r.cfg.Deadline); dead > st.r.judgedUp(now) {
			next = min(next, st.r.when(dead))
			continue
		}
		expired = true
		if st.win.history.open && seq < st.win.history.end {
			st.win.history.giveUp(st, now, seq+1, events.CauseDeadline)
			continue
		}
		e.state, e.cause = entryGone, events.CauseDeadline
		st.nak.found()
	}
	st.nak.expireAt = next
	if expired {
		st.advance(now)
	}
}

// skipUnseen skips packets that were never counted as missing, because they are beyond the window or there is none.
func (st *Stream) skipUnseen(n uint64, cause events.Cause) {
	st.r.stats.Missing += n
	st.skip(n, cause)
}

// skip skips n permanently lost packets, and delivers the gap.
func (st *Stream) skip(n uint64, cause events.Cause) {
	if n == 0 {
		return
	}
	cause = st.holding.cause(cause)
	if x := st.path.legs; x != nil {
		x.repaired(st.next, n)
	}
	countLost(&st.r.stats, n, cause)
	st.win.counts.Lost += n
	st.report.lost += uint32(n)
	e := st.r.event(EventGap, st.next)
	e.Count, e.Cause = n, cause
	st.out.Deliver(e)
	st.next += n
	st.tracked = max(st.tracked, st.next)
	st.high = max(st.high, st.next)
	st.totals.loss(st)
}
