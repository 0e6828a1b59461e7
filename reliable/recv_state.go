package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// How a receiver begins with the state that a publisher puts into its stream. docs/protocol §25.

// stateJoin is the progress of a stream that begins with state: a round of it (wire.State).
//
//	         a round begins                    it ends
//	┌───────┐ ───────────► ┌────────┐ ──────────────────► ┌────────────┐ all of it ┌────────┐
//	│ asked │              │ coming │                     │ delivering │ ────────► │ behind │
//	└───────┘ ◄─────────── └────────┘                     └────────────┘           └────────┘
//	  │       a packet is lost │                               ▲                    │ later packets
//	  └────────────────────────┴───────────────────────────────┘                    ▼ are delivered
//	            no answer, no room, the publisher is gone                          none
//
// Nothing is delivered before the state. Packets from the beginning of the round on wait in the window, and are
// delivered after the state: so the order of the stream alone says which messages the state includes. Publishers wait
// for the receiver when it is none.
type stateJoin struct {
	phase statePhase
	why   events.StateCause   // delivering: why there is no state
	round uint32              // coming: its number
	begin uint64              // coming: the packet with which it begins
	named bool                // coming: the publisher has known that we wait for it
	has   map[uint64]struct{} // coming: the wanted topics with complete state
	tries int                 // rounds that were lost, or did not have all
	scan  uint64              // asked, coming: packets from next up to here were looked at
	known bool                // delivering: names of topics are no longer waited for
	at    uint64              // delivering: the packet with the state that is next
	end   uint64              // delivering: behind the last one; behind: behind the packets that waited
	since upTime              // asked, coming: the last news
	from  upTime              // asked first
}

type statePhase uint8

const (
	stateNone statePhase = iota
	stateAsked
	stateComing
	stateDelivering
	stateBehind
)

// wants reports whether the publisher is asked for a round.
func (j *stateJoin) wants() bool { return j.phase == stateAsked || j.phase == stateComing }

// joining reports whether publishers do not wait for the receiver.
func (j *stateJoin) joining() bool { return j.phase != stateNone }

// waits reports whether the stream delivers nothing yet.
func (j *stateJoin) waits() bool { return j.phase != stateNone && j.phase != stateBehind }

// BeginsWithState reports whether the stream is still to deliver the state that it begins with: its reader calls
// Reader.AwaitState.
func (st *Stream) BeginsWithState() bool { return st.win.state.waits() }

// wantState makes a stream that is new begin with state.
func (st *Stream) wantState(now Instant) {
	st.win.state = stateJoin{phase: stateAsked, scan: st.next, since: st.r.up(now), from: st.r.up(now)}
	st.stalled = true                 // packets in order wait, too
	st.topics.repertoire.asked = true // so that the topics that may have state are known
}

// joinState goes on as far as it can. It reports whether the stream is delivered from now on.
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
				st.report.by(now) // it is waited for from now on
			}
			return true
		default:
			return true
		}
	}
}

// scanState looks for a round in the packets that have come in order.
func (st *Stream) scanState(now Instant) {
	j := &st.win.state
	for j.wants() {
		if j.scan == st.tracked {
			if st.abandon.below > st.tracked { // more than the window holds is given up
				st.passState(st.tracked)
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
			st.passState(j.scan + 1)
			st.loseState(now, e.cause)
		default:
			st.lookForState(now, st.runs(e))
		}
	}
}

// lookForState looks at the runs of the next packet.
func (st *Stream) lookForState(now Instant, runs []byte) {
	j := &st.win.state
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
			if st.next > 0 || j.phase == stateComing { // a receiver that is there from the first packet on needs no state
				st.passState(j.scan)
			}
			j.phase, j.round, j.begin, j.since = stateComing, s.Round, j.scan, st.r.up(now)
			j.named, j.has = s.Names(st.r.cfg.ID), make(map[uint64]struct{})
			st.nameRound(now)
		case j.phase != stateComing || s.Round != j.round:
		case s.Marks&wire.StateEnds != 0:
			if !j.named && (st.r.names.to != nil || !st.hasAll(j.has)) { // the round was for receivers of other topics
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

// passState leaves out the packets below seq, of which none is missing.
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

// loseState begins anew: a packet that may have had state is lost permanently.
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

// hasAll reports whether all topics that are wanted, and that the publisher may have, are in has.
func (st *Stream) hasAll(has map[uint64]struct{}) bool {
	for _, id := range st.r.topics {
		if _, ok := has[id]; !ok && st.topics.repertoire.may(id) {
			return false
		}
	}
	return true
}

// askAgain asks for another round, if not too many were of no use because of why.
func (st *Stream) askAgain(now Instant, why events.StateCause) {
	j := &st.win.state
	if j.tries++; j.tries >= stateTries {
		j.fail(why)
		return
	}
	j.phase, j.scan, j.since = stateAsked, st.next, st.r.up(now)
	st.report.by(now)
}

// overrun gives the round up because what is sent meanwhile does not fit the window.
func (j *stateJoin) overrun() {
	if j.phase == stateComing {
		j.fail(events.StateOverrun)
	}
}

// fail ends the waiting. The stream begins without state.
func (j *stateJoin) fail(why events.StateCause) {
	j.phase, j.why, j.at, j.end = stateDelivering, why, 0, 0
}

// stateOver is why there is no state to wait for any more, or StateWhole.
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
	case st.r.up(now) >= st.r.patience(j.since, limit):
		return events.StateUnanswered
	}
	return events.StateWhole
}

// stateDue is when stateOver may say something else.
func (st *Stream) stateDue() Instant {
	j := &st.win.state
	switch j.phase {
	case stateAsked:
		d := st.r.patience(j.since, st.r.cfg.Deadline)
		if !st.life.keepsState && st.clock.newest != 0 {
			d = min(d, j.from.add(stateGrace))
		}
		return st.r.when(d)
	case stateComing:
		return st.r.when(st.r.patience(j.since, st.r.cfg.Deadline*statePauses))
	}
	return Never
}

// deliverState delivers the state, or that there is none. It reports false where the output has no room.
func (st *Stream) deliverState(now Instant) bool {
	j := &st.win.state
	if !st.roundNamed(now) {
		return false
	}
	for ; j.at < j.end; j.at++ {
		runs := st.runs(st.win.entries.at(j.at))
		if !hasState(runs) {
			continue
		}
		if !st.deliverUnnamedStates(runs) || !st.out.Room() {
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
	if e.State, e.Topics = j.why, nil; j.why == events.StateOverrun {
		e.Count = st.win.span * uint64(st.packetSize)
	}
	for _, id := range st.r.topics {
		if st.topics.repertoire.may(id) {
			e.Topics = append(e.Topics, id)
		}
	}
	e.Topics = st.appendNamed(e.Topics)
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

// hasState reports whether there is state of a topic in the runs of a packet.
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
