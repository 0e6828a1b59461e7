package reliable

import (
	"slices"

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
	known bool                // delivering: names of topics are known, or not waited for any more
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
	st.stalled = true                 // packets in order wait, too
	st.topics.repertoire.asked = true // to learn which topics may have state
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
			st.scanRuns(now, st.runs(e))
		}
	}
}

// scanRuns inspects the runs of the next packet.
func (st *Stream) scanRuns(now Instant, runs []byte) {
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
			if st.next > 0 || j.phase == stateComing { // a receiver that is present from the first packet on needs no state
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

// hasAll reports whether has includes all wanted topics that the publisher may have.
func (st *Stream) hasAll(has map[uint64]struct{}) bool {
	for _, id := range st.r.topics {
		if _, ok := has[id]; !ok && st.topics.repertoire.may(id) {
			return false
		}
	}
	return true
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

// deliverState delivers the state, or that there is none. It reports false if it has to wait for names or room.
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

// Names of topics with state, for patterns. A round is delivered when they are known, or not waited for any more.
// docs/protocol §25.9.

// nameRound requests the names of all topics that the publisher has when a round begins.
func (st *Stream) nameRound(now Instant) {
	if st.r.names.to != nil {
		st.askNames(now, st.win.state.scan+1)
	}
}

// roundNamed reports whether the names of the topics that the publisher had when the round began, and of those with
// state in it, are known. The receiver waits for them as long as before a packet.
func (st *Stream) roundNamed(now Instant) bool {
	n, j := &st.topics.names, &st.win.state
	if st.r.names.to == nil || j.known {
		return true
	}
	from := n.from
	waits := n.open
	for seq := j.at; seq < j.end && !waits && n.all < j.end; seq++ {
		from = j.end
		waits = slices.ContainsFunc(statesIn(st.runs(st.win.entries.at(seq))), st.unnamedState)
	}
	if waits && !st.life.down {
		n.wait(now, st.r.up(now))
		if st.r.judgedUp(now) < st.namesExpire() {
			st.askNames(now, from)
			return false
		}
	}
	n.waiting, j.known = false, true
	return true
}

// unnamedState reports whether a topic with state has no known name.
func (st *Stream) unnamedState(id uint64) bool {
	if _, ok := st.r.wants[id]; ok {
		return false // the subscription states the name
	}
	return st.topics.names.has.Get(id) == nil && !st.shares(id) && st.topics.names.refused[id] == nil
}

// deliverUnnamedStates reports each unnamed topic with state in a packet. It returns false if the output has no room.
func (st *Stream) deliverUnnamedStates(runs []byte) bool {
	if st.r.names.to == nil {
		return true
	}
	for _, id := range statesIn(runs) {
		if _, reported := st.topics.names.unnamed[id]; reported || !st.unnamedState(id) {
			continue
		}
		if !st.out.Room() {
			return false
		}
		st.deliverUnnamed(id)
	}
	return true
}

// appendNamed appends the topics of the stream that only a pattern wants.
func (st *Stream) appendNamed(topics []uint64) []uint64 {
	if st.r.names.to == nil {
		return topics
	}
	st.topics.names.has.All(func(id uint64, _ *topicName) {
		if _, exact := st.r.wants[id]; !exact && st.r.names.to.Wants(id) {
			topics = append(topics, id)
		}
	})
	return topics
}

// statesIn returns the topics with state that begins in the runs of a packet.
func statesIn(runs []byte) (topics []uint64) {
	for run, rest, ok := wire.NextRun(runs); ok; run, rest, ok = wire.NextRun(rest) {
		if run.Kind == wire.RunState && wire.ParseState(run.Body).Marks&wire.StateFirst != 0 {
			topics = append(topics, run.Topic)
		}
	}
	return topics
}
