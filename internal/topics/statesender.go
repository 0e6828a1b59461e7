package topics

import (
	"encoding/binary"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// StateSender puts the state of topics into a stream, for late joiners, within a share of the rate. A round of state is
// for all receivers that wait when it begins, in packets of its own. docs/protocol §25.
//
// Its owner asks when a round is Due, begins it, then takes the state of each topic that is Wanted, and ends it.
type StateSender struct {
	s      *Sender
	w      *Writer
	grant  func(*Writer) bool
	budget *reliable.RateShare
	keeps  bool             // a topic has state
	open   bool             // a round is in progress
	opens  bool             // the run that begins the round was written, and has no sequence yet
	ends   bool             // the run that ends the round was written, and has no sequence yet
	round  uint32           // number of the current or last round
	begun  uint64           // sequence with which that round began; noRound: there was none
	asked  reliable.Instant // since when a receiver has waited for the next round; reliable.Never: none waits
	short  bool             // the budget is exhausted
	ids    []byte           // of the receivers for which the round begins
}

const noRound = 1<<64 - 1

// stateCollect is how long a publisher collects requests for state before it begins a round.
const stateCollect = 20 * time.Millisecond

// NewState returns the stream's StateSender, for a share of the rate limit, or of the recent data rate. It needs memory
// for a further Writer (reliable.Sender.AddMemory). grant gives that Writer a block if possible, as Sender.Grant does.
func (s *Sender) NewState(now reliable.Instant, share float64, grant func(*Writer) bool) *StateSender {
	x := &StateSender{s: s, w: s.NewWriter(), grant: grant, begun: noRound, asked: reliable.Never}
	x.budget = s.stream.NewRateShare(now, share)
	s.state = x
	return x
}

// Keep sets whether any topic has state now. Otherwise no round begins, and heartbeats do not announce state.
func (x *StateSender) Keep(keeps bool) {
	if x.keeps = keeps; !keeps {
		x.asked = reliable.Never
	}
}

// kept reports whether heartbeats announce state.
func (x *StateSender) kept() bool { return x != nil && x.keeps }

// asks records that a member, which has all packets below next, waits for a round. A member that has not passed the
// beginning of the latest round gets that one.
func (x *StateSender) asks(now reliable.Instant, next uint64) {
	if x == nil || !x.keeps || x.begun != noRound && next <= x.begun {
		return
	}
	x.asked = min(x.asked, now)
}

// Due is when the owner has to begin a round, or to continue one that had exhausted its budget.
func (x *StateSender) Due() reliable.Instant {
	switch {
	case x.open && x.short:
		return x.budget.Due(x.w.size)
	case x.open || x.asked == reliable.Never || x.s.stream.Ended():
		return reliable.Never
	}
	return x.asked.Add(stateCollect)
}

// Begin begins a round. Messages assigned before have lower sequences. It reports false if the owner must try again.
func (x *StateSender) Begin(now reliable.Instant) bool {
	if !x.opens {
		x.round++
		x.ids = x.ids[:0]
		for _, m := range x.s.members.list {
			if m.wantsState {
				x.ids = binary.LittleEndian.AppendUint64(x.ids, m.m.ID)
			}
		}
		if !x.mark(now, wire.StateBegins, x.ids) {
			x.round--
			return false
		}
		x.opens = true
	}
	if x.s.Assign(now, x.w, true) != events.ReasonNone {
		return false
	}
	x.opens, x.open = false, true
	x.begun, x.asked = x.s.stream.Lead()-1, reliable.Never
	x.s.stats.StateRounds++
	return true
}

// Open reports whether a round is in progress.
func (x *StateSender) Open() bool { return x.open }

// Wanted reports whether a waiting receiver wants the topic.
func (x *StateSender) Wanted(topic uint64) bool {
	for _, m := range x.s.members.list {
		if m.wantsState && (len(m.topics) == 0 || m.moreTopics || m.lists(topic)) {
			return true
		}
	}
	return false
}

// Put puts the rest of a topic's state, left, into the stream; first: left is all of it. number is that of the first
// message that the state does not include. failed: there is no state. Put returns what is still left, whether the state
// has begun, and whether it is done.
func (x *StateSender) Put(now reliable.Instant, t *Topic, number uint64, left []byte, first,
	failed bool) (rest []byte, began, done bool) {
	for {
		room := x.room(now)
		if room < 0 || first && t.naming.missing(x.w) && !x.w.name(t) { // for receivers with patterns
			return left, !first, false
		}
		if room = x.room(now); room < 0 {
			return left, !first, false
		}
		st := wire.State{Round: x.round, Bytes: left[:min(room, len(left))]}
		left = left[len(st.Bytes):]
		if first {
			st.Marks |= wire.StateFirst
		}
		if len(left) == 0 {
			st.Marks |= wire.StateLast
		}
		if failed {
			st.Marks |= wire.StateFailed
		}
		x.run(t.ID, number, &st)
		x.s.stats.StateBytes += uint64(len(st.Bytes))
		if first = false; len(left) == 0 {
			return nil, true, true
		}
	}
}

// End ends the round. It reports false if the owner must try again.
func (x *StateSender) End(now reliable.Instant) bool {
	if !x.ends && !x.mark(now, wire.StateEnds, nil) {
		return false
	}
	x.ends = true
	if x.s.Assign(now, x.w, true) != events.ReasonNone {
		return false // the owner must try again: receivers wait for the end
	}
	x.ends, x.open = false, false
	return true
}

// Flush gives the full packets, or all, their sequences.
func (x *StateSender) Flush(now reliable.Instant, all bool) { x.s.Assign(now, x.w, all) }

// Pending reports whether there are packets without a sequence.
func (x *StateSender) Pending() bool { return x.w.Pending() }

// mark adds a run that begins or ends the round. It reports false if there is no room.
func (x *StateSender) mark(now reliable.Instant, m wire.StateMarks, b []byte) bool {
	room := x.room(now)
	if room < 0 {
		return false
	}
	x.run(0, 0, &wire.State{Marks: m, Round: x.round, Bytes: b[:min(len(b), room&^7)]})
	return true
}

// run adds a run. There must be room.
func (x *StateSender) run(topic, number uint64, st *wire.State) {
	w := x.w
	n := wire.RunHeaderLen + wire.StateHeaderLen + len(st.Bytes)
	wire.PutStateRun(w.packet[w.off:w.off+n], topic, number, st)
	w.off += n
}

// leastState is the least state, in bytes, for which a run is begun at the end of a packet.
const leastState = 16

// room is how many bytes of state fit a run in the open packet, or in the next one. It is negative if budget or memory
// is missing.
func (x *StateSender) room(now reliable.Instant) int {
	w, size := x.w, x.w.size
	const head = wire.RunHeaderLen + wire.StateHeaderLen
	if w.packet != nil && size-w.off >= head+leastState {
		return size - w.off - head
	}
	if w.packet != nil {
		w.close()
	}
	if x.short = false; w.Packets.Full() {
		x.s.Assign(now, w, false)
		if !x.grant(w) || w.Packets.Full() {
			return -1
		}
	}
	if x.short = !x.budget.Take(now, size); x.short {
		return -1
	}
	w.begin()
	return size - w.off - head
}
