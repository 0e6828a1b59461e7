package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// How a receiver joins with the state that a publisher puts into its stream. docs/protocol §25.

// stateJoin is the progress of a stream that begins with a round of state (wire.State).
//
//	         a round begins                    it ends
//	┌───────┐ ───────────► ┌────────┐ ──────────────────► ┌────────────┐ delivered ┌────────┐
//	│ asked │              │ coming │                     │ delivering │ ────────► │ behind │
//	└───────┘ ◄─────────── └────────┘                     └────────────┘           └────────┘
//	  │      a packet is lost  │                               ▲                    │ waiting packets
//	  └────────────────────────┴───────────────────────────────┘                    ▼ delivered
//	     no answer, no room, or the publisher is gone                              none
//
// Nothing is delivered before the state. Packets from the beginning of the round on wait in the window, and are
// delivered after the state. So the order of the stream alone determines which messages the state includes. Publishers
// wait for the receiver in phase none.
type stateJoin struct {
	phase statePhase
	why   events.StateCause   // delivering: why there is no state
	round uint32              // coming: number of the round
	begin uint64              // coming: sequence of the packet with which it begins
	named bool                // coming: it names this receiver
	has   map[uint64]struct{} // coming: the wanted topics with complete state
	tries int                 // rounds that were lost or incomplete
	scan  uint64              // asked, coming: packets from next up to here were inspected
	at    uint64              // delivering: next packet with state
	end   uint64              // delivering: behind the last one; behind: behind the packets that waited
	since upTime              // asked, coming: last progress
	from  upTime              // when state was first requested
}

type statePhase uint8

const (
	stateNone statePhase = iota
	stateAsked
	stateComing
	stateDelivering
	stateBehind
)

// wants reports whether statuses request a round.
func (j *stateJoin) wants() bool { return j.phase == stateAsked || j.phase == stateComing }

// joining reports whether statuses ask publishers not to wait for the receiver.
func (j *stateJoin) joining() bool { return j.phase != stateNone }

// waits reports whether the stream does not deliver yet.
func (j *stateJoin) waits() bool { return j.phase != stateNone && j.phase != stateBehind }

// BeginsWithState reports whether the stream has still to deliver the state with which it begins: its reader calls
// Reader.AwaitState.
func (st *Stream) BeginsWithState() bool { return st.win.state.waits() }

// wantState makes a new stream begin with state.
func (st *Stream) wantState(now Instant) {
	st.win.state = stateJoin{phase: stateAsked, scan: st.next, since: st.r.up(now), from: st.r.up(now)}
	st.stalled = true // packets in order wait, too
}

// joinState proceeds as far as possible. It reports whether the stream delivers packets from now on.
func (st *Stream) joinState(now Instant) bool {
	j := &st.win.state
	for {
		switch j.phase {
		case stateAsked, stateComing:
			if st.scanState(now); !j.wants() {
				continue
			}
			why := st.stateOver(now)
			if why == events.StateWhole {
				return false
			}
			j.fail(why)
		case stateDelivering:
			if !st.deliverState(now) {
				return false
			}
		case stateBehind:
			if st.next >= j.end {
				j.phase = stateNone
				st.report.by(now) // from now on the publisher waits for this receiver
			}
			return true
		default:
			return true
		}
	}
}

// scanState searches the packets that arrived in order for a round.
func (st *Stream) scanState(now Instant) {
	j := &st.win.state
	for j.wants() {
		if j.scan == st.tracked {
			if st.abandon.below > st.tracked { // packets beyond the window were given up
				st.passState(st.tracked)
				st.contents.Lost(st.tracked, st.abandon.below)
				st.next, st.tracked, st.high = st.abandon.below, st.abandon.below, max(st.high, st.abandon.below)
				st.start = st.next
				st.loseState(now, st.abandon.cause)
				continue
			}
			if st.tracked < st.high {
				st.extend(now, st.high)
			}
			return
		}
		e := st.win.entries.at(j.scan)
		switch e.state {
		case entryMissing:
			return
		case entryGone:
			st.contents.Lost(j.scan, j.scan+1)
			st.passState(j.scan + 1)
			st.loseState(now, e.cause)
		default:
			st.scanRuns(now, e)
		}
	}
}

// scanRuns inspects the runs of the next packet.
func (st *Stream) scanRuns(now Instant, e *entry) {
	j, runs := &st.win.state, st.runs(e)
	if e.control {
		st.contents.Waits(now, j.scan, runs)
	}
	for {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			break
		}
		runs = rest
		if run.Kind != wire.RunState {
			continue
		}
		s := wire.ParseState(run.Body)
		switch {
		case s.Marks&wire.StateBegins != 0:
			if st.next > 0 || j.phase == stateComing { // a receiver that is present from the first packet on needs no state
				st.passState(j.scan)
			}
			j.phase, j.round, j.begin, j.since = stateComing, s.Round, j.scan, st.r.up(now)
			j.named, j.has = s.Names(st.r.cfg.ID), make(map[uint64]struct{})
		case j.phase != stateComing || s.Round != j.round:
		case s.Marks&wire.StateEnds != 0:
			if !st.contents.StateComplete(j.named, j.has) {
				// The round was for receivers of other topics, or some names are not known yet.
				st.passState(j.begin + 1)
				st.askAgain(now, events.StateUnanswered)
				return
			}
			j.phase, j.why, j.at, j.end = stateDelivering, events.StateWhole, st.next, j.scan+1
			return
		default:
			if j.since = st.r.up(now); s.Marks&wire.StateLast != 0 {
				j.has[run.Topic] = struct{}{}
			}
		}
	}
	j.scan++
	if j.phase == stateAsked && (st.start > 0 || j.scan-st.next > st.win.span/2) {
		st.passState(j.scan)
	}
}

// passState skips the packets below seq, none of which is missing.
func (st *Stream) passState(seq uint64) {
	for ; st.next < seq; st.next++ {
		switch e := st.win.entries.at(st.next); e.state {
		case entryHeld, entryLent:
			st.drop(e)
		default:
			e.state = entryEmpty
		}
	}
	st.start = st.next
	st.win.state.scan = max(st.win.state.scan, st.next)
}

// loseState handles a permanently lost packet, which may have held state: the receiver asks again.
func (st *Stream) loseState(now Instant, cause events.Cause) {
	j := &st.win.state
	if j.phase != stateComing {
		j.scan = st.next
		return
	}
	if cause == events.CauseOverrun {
		st.askAgain(now, events.StateOverrun)
	} else {
		st.askAgain(now, events.StateIncomplete)
	}
}

// askAgain requests another round, unless too many have failed. why is the reason for the last failure.
func (st *Stream) askAgain(now Instant, why events.StateCause) {
	j := &st.win.state
	if j.tries++; j.tries >= stateTries {
		j.fail(why)
		return
	}
	j.phase, j.scan, j.since = stateAsked, st.next, st.r.up(now)
	st.report.by(now)
}

// overrun gives up a round because packets sent meanwhile exceed the window.
func (j *stateJoin) overrun() {
	if j.phase == stateComing {
		j.fail(events.StateOverrun)
	}
}

// fail ends the wait. The stream begins without state.
func (j *stateJoin) fail(why events.StateCause) {
	j.phase, j.why, j.at, j.end = stateDelivering, why, 0, 0
}

// stateOver is why the receiver stops waiting for state, or StateWhole while it waits.
func (st *Stream) stateOver(now Instant) events.StateCause {
	j, now := &st.win.state, st.r.judged(now)
	limit := st.r.cfg.Deadline
	if j.phase == stateComing {
		limit *= statePauses
	}
	switch {
	case st.life.down:
		return events.StatePublisherGone
	case st.life.ended && j.scan >= st.life.endAt:
		return events.StatePublisherGone
	case j.phase == stateAsked && st.clock.newest != 0 && !st.life.keepsState && st.r.up(now).sub(j.from) >= stateGrace:
		return events.StateNotKept
	case st.r.up(now) >= st.r.expiry(j.since, limit):
		return events.StateUnanswered
	}
	return events.StateWhole
}

// stateDue is when the result of stateOver may change.
func (st *Stream) stateDue() Instant {
	j := &st.win.state
	switch j.phase {
	case stateAsked:
		d := st.r.expiry(j.since, st.r.cfg.Deadline)
		if !st.life.keepsState && st.clock.newest != 0 {
			d = min(d, j.from.add(stateGrace))
		}
		return st.r.when(d)
	case stateComing:
		return st.r.when(st.r.expiry(j.since, st.r.cfg.Deadline*statePauses))
	}
	return Never
}

// deliverState delivers the state, or that there is none. It reports false if it has to wait for room.
func (st *Stream) deliverState(now Instant) bool {
	j := &st.win.state
	for ; j.at < j.end; j.at++ {
		runs := st.runs(st.win.entries.at(j.at))
		if !hasState(runs) {
			continue
		}
		if !st.out.Room() {
			return false
		}
		e := st.r.event(EventState, st.next)
		e.Packet = runs
		st.out.Deliver(e)
	}
	if !st.out.Room() {
		return false
	}
	e := st.r.event(EventStateEnd, st.next)
	if e.State = j.why; j.why == events.StateOverrun {
		e.Count = st.win.span * uint64(st.packetSize)
	}
	e.Topics = st.contents.StateTopics()
	st.out.Deliver(e)
	if j.why != events.StateWhole {
		st.r.stats.StateFailed++
	} else {
		st.r.stats.StateJoins++
	}
	st.start = st.next
	j.phase, j.end = stateBehind, max(st.tracked, st.high)
	st.report.by(now)
	return true
}

// hasState reports whether the runs of a packet include state of a topic.
func hasState(runs []byte) bool {
	for {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			return false
		}
		if run.Kind == wire.RunState && wire.ParseState(run.Body).Marks&(wire.StateBegins|wire.StateEnds) == 0 {
			return true
		}
		runs = rest
	}
}
