package reliable

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
)

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
