package topics

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// How a receiver joins with the state that a publisher puts into its stream. docs/protocol §25.

// stateJoin is the progress of a stream that begins with a round of state (wire.State).
//
//	         a round begins                    it ends
//	┌───────┐ ───────────► ┌────────┐ ──────────────────► ┌────────────┐ delivered
//	│ asked │              │ coming │                     │ delivering │ ────────► none
//	└───────┘ ◄─────────── └────────┘                     └────────────┘
//	  │      a packet is lost  │                               ▲
//	  └────────────────────────┴───────────────────────────────┘
//	     no answer, no room, or the publisher is gone
//
// Nothing is delivered before the state. Packets from the beginning of the round on wait in the window, and are
// delivered after the state. So the order of the stream alone determines which messages the state includes.
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
	end   uint64              // delivering: behind the last one
	since reliable.Instant    // asked, coming: last progress, as Running.Ran has it
	from  reliable.Instant    // when state was first requested, as Running.Ran has it
	heard bool                // a heartbeat has said whether the publisher keeps state
	keeps bool                // it does
}

type statePhase uint8

const (
	stateNone statePhase = iota
	stateAsked
	stateComing
	stateDelivering
)

// wants reports whether statuses request a round.
func (j *stateJoin) wants() bool { return j.phase == stateAsked || j.phase == stateComing }

// FromState makes new streams begin with the state that their publishers keep of their topics, with
// reliable.ReceiverConfig.Joins. deadline and runs are those of the reliable.Receiver.
func (r *Receiver) FromState(deadline time.Duration, runs *reliable.Running) {
	r.joins = joins{deadline: deadline, runs: runs}
}

// joins is how streams begin with state.
type joins struct {
	deadline time.Duration
	runs     *reliable.Running // nil: they do not
}

// wantState makes a new stream begin with state.
func (st *Stream) wantState(now reliable.Instant) {
	ran := st.r.joins.runs.Ran(now)
	st.state = stateJoin{phase: stateAsked, scan: st.packets.Reached(), since: ran, from: ran}
}

// Join implements reliable.Contents. It reports whether the stream delivers packets from now on.
func (st *Stream) Join(now, judged reliable.Instant) bool {
	j := &st.state
	for {
		switch j.phase {
		case stateAsked, stateComing:
			if st.scanState(now); !j.wants() {
				continue
			}
			why := st.stateOver(judged)
			if why == events.StateWhole {
				return false
			}
			j.fail(why)
		case stateDelivering:
			return st.deliverState()
		default:
			return true
		}
	}
}

// scanState searches the packets that arrived in order for a round.
func (st *Stream) scanState(now reliable.Instant) {
	j := &st.state
	for j.wants() {
		switch p := st.packets.Waiting(now, j.scan); {
		case p.Arrived:
			st.scanRuns(now, &p)
		case p.Lost == 0:
			return
		default:
			st.Lost(j.scan, p.Lost)
			st.passState(now, p.Lost)
			st.loseState(now, p.Cause)
		}
	}
}

// scanRuns inspects the runs of the next packet.
func (st *Stream) scanRuns(now reliable.Instant, p *reliable.Waiting) {
	j, runs := &st.state, p.Runs
	if p.Control {
		st.inspect(j.scan, runs)
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
			// A receiver that is present from the first packet on needs no state.
			if st.packets.Reached() > 0 || j.phase == stateComing {
				st.passState(now, j.scan)
			}
			j.phase, j.round, j.begin, j.since = stateComing, s.Round, j.scan, st.ran(now)
			j.named, j.has = s.Names(st.r.id), make(map[uint64]struct{})
		case j.phase != stateComing || s.Round != j.round:
		case s.Marks&wire.StateEnds != 0:
			if st.r.names.to != nil && (!j.named || !st.index.known) || !j.named && !st.hasAll(j.has) {
				// The round was for receivers of other topics, or some names are not known yet.
				st.passState(now, j.begin+1)
				st.askAgain(now, events.StateUnanswered)
				return
			}
			j.phase, j.why, j.at, j.end = stateDelivering, events.StateWhole, st.packets.Reached(), j.scan+1
			return
		default:
			if j.since = st.ran(now); s.Marks&wire.StateLast != 0 {
				j.has[run.Topic] = struct{}{}
			}
		}
	}
	j.scan++
	if j.phase == stateAsked && (st.packets.Start() > 0 || j.scan-st.packets.Reached() > uint64(st.packets.Span())/2) {
		st.passState(now, j.scan)
	}
}

// passState skips the packets below seq, none of which is missing.
func (st *Stream) passState(now reliable.Instant, seq uint64) {
	st.packets.BeginAt(now, seq)
	st.state.scan = max(st.state.scan, st.packets.Reached())
}

// loseState handles a permanently lost packet, which may have held state: the receiver asks again.
func (st *Stream) loseState(now reliable.Instant, cause events.Cause) {
	j := &st.state
	if j.phase != stateComing {
		j.scan = st.packets.Reached()
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
		if _, ok := has[id]; !ok && st.may(id) {
			return false
		}
	}
	return true
}

// askAgain requests another round, unless too many have failed. why is the reason for the last failure.
func (st *Stream) askAgain(now reliable.Instant, why events.StateCause) {
	j := &st.state
	if j.tries++; j.tries >= stateTries {
		j.fail(why)
		return
	}
	j.phase, j.scan, j.since = stateAsked, st.packets.Reached(), st.ran(now)
	st.packets.Report(now, false)
}

// Overrun implements reliable.Contents: packets sent during a round exceed the window.
func (st *Stream) Overrun() {
	if st.state.phase == stateComing {
		st.state.fail(events.StateOverrun)
	}
}

// Reread implements reliable.Contents.
func (st *Stream) Reread() { st.state.scan = st.packets.Reached() }

// fail ends the wait. The stream begins without state.
func (j *stateJoin) fail(why events.StateCause) {
	j.phase, j.why, j.at, j.end = stateDelivering, why, 0, 0
}

// ran returns the time for which the owner has run.
func (st *Stream) ran(now reliable.Instant) reliable.Instant { return st.r.joins.runs.Ran(now) }

// stateOver is why the receiver stops waiting for state, or StateWhole while it waits.
func (st *Stream) stateOver(judged reliable.Instant) events.StateCause {
	j, ran := &st.state, st.ran(judged)
	switch {
	case st.packets.Down() || st.packets.EndsBefore(j.scan):
		return events.StatePublisherGone
	case j.phase == stateAsked && j.heard && !j.keeps && ran.Sub(j.from) >= stateGrace:
		return events.StateNotKept
	case ran >= st.stateExpiry():
		return events.StateUnanswered
	}
	return events.StateWhole
}

// stateExpiry is when the owner has run for too long without progress.
func (st *Stream) stateExpiry() reliable.Instant {
	limit := st.r.joins.deadline
	if st.state.phase == stateComing {
		limit *= statePauses
	}
	return st.packets.Expiry(st.state.since, limit)
}

// JoinDue implements reliable.Contents: when the result of stateOver may change.
func (st *Stream) JoinDue() reliable.Instant {
	j := &st.state
	if !j.wants() {
		return reliable.Never
	}
	d := st.stateExpiry()
	if j.phase == stateAsked && j.heard && !j.keeps {
		d = min(d, j.from.Add(stateGrace))
	}
	return st.r.joins.runs.WillHaveRan(d)
}

// deliverState delivers the state, or that there is none. It reports false if it has to wait for room.
func (st *Stream) deliverState() bool {
	j := &st.state
	for ; j.at < j.end; j.at++ {
		runs := st.packets.Waiting(0, j.at).Runs
		if !hasState(runs) {
			continue
		}
		if !st.out.Room() {
			return false
		}
		st.out.Note(&Event{Kind: EventState, Seq: st.packets.Reached(), Runs: runs})
	}
	if !st.out.Room() {
		return false
	}
	e := Event{Kind: EventStateEnd, Seq: st.packets.Reached(), State: j.why, Topics: st.stateTopics()}
	if j.why == events.StateOverrun {
		to, _ := st.r.packets.Recipient(st.packets.Instance)
		e.Room = uint64(st.packets.Span() * to.PacketSize)
	}
	st.out.Note(&e)
	if j.why != events.StateWhole {
		st.r.stats.StateFailed++
	} else {
		st.r.stats.StateJoins++
	}
	j.phase = stateNone
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

// stateTopics returns the wanted topics that the publisher has or may have.
func (st *Stream) stateTopics() (topics []uint64) {
	for _, id := range st.r.topics {
		if st.may(id) {
			topics = append(topics, id)
		}
	}
	if st.r.names.to == nil {
		return topics
	}
	st.names.has.All(func(id uint64, _ *streamName) {
		if _, exact := st.r.wants[id]; !exact && st.r.names.to.Wants(id) {
			topics = append(topics, id)
		}
	})
	return topics
}

const (
	// stateGrace is how long a receiver waits for a publisher to announce that it keeps state.
	stateGrace = 200 * time.Millisecond
	// statePauses is how many recovery deadlines a round of state may pause; stateTries is how many rounds may fail for a
	// receiver before it gives up.
	statePauses = 5
	stateTries  = 5
)
