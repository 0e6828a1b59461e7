package topics

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// What of a stream's state is for the topics that a reader wants. docs/protocol §25.

// stateReader reads state for a Reader.
type stateReader struct {
	runs   []byte // rest of the event's runs
	track  *Track // of the state that is read; nil: none
	number uint64 // of the first message that is not in it
	buf    []byte // as much of it as has arrived
	rest   []byte // of buf: what has no record yet
	last   bool   // nothing more of it comes
	ended  bool   // the round
	why    events.StateCause
	room   uint64   // of the window, in bytes, where why says that it has none left
	lack   []*Track // topics without state, to be reported; once ended
}

// AwaitState says that the stream begins with state, or with an EventStateEnd that says why not.
func (r *Reader) AwaitState() { r.state = new(stateReader) }

// WithoutState says of a topic that the reader wants: it is not among those that begin with state.
func (r *Reader) WithoutState(id uint64) {
	if t := r.topics.Get(id); t != nil {
		t.stated = true
	}
}

// takeState begins the next runs with state.
func (r *Reader) takeState(runs []byte) {
	if x := r.state; x != nil && !x.ended {
		r.rejudge()
		x.runs = runs
	}
}

// SkipState notes that events were left out: where the state was still to be read it may have been among them.
func (r *Reader) SkipState() {
	if x := r.state; x != nil && !x.ended {
		r.endState(1, events.StateUnread, nil)
	}
}

// endState ends the round. at is the sequence that the stream goes on with; topics are those that the publisher has.
func (r *Reader) endState(at uint64, why events.StateCause, topics []uint64) {
	x := r.state
	if x == nil || x.ended {
		return
	}
	x.ended, x.why, x.track, x.runs = true, why, nil, nil
	if why == events.StateWhole {
		x.why = events.StateNotKept
	}
	r.topics.All(func(_ uint64, t *Track) {
		if !t.stated && !t.refused && (why == events.StateUnread || slices.Contains(topics, t.ID)) {
			x.lack = append(x.lack, t)
		}
		t.known = t.known && at == 0
	})
	slices.SortFunc(x.lack, func(a, b *Track) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	r.fresh = r.fresh && at == 0
}

// drop forgets a topic.
func (x *stateReader) drop(id uint64) {
	if x.track != nil && x.track.ID == id {
		x.track = nil
	}
	x.lack = slices.DeleteFunc(x.lack, func(t *Track) bool { return t.ID == id })
}

// nextState fills it with the next part of the state.
func (r *Reader) nextState(it *Item) bool {
	x := r.state
	for {
		if x.track != nil && r.record(it) {
			return true
		}
		run, rest, ok := wire.NextRun(x.runs)
		if !ok {
			x.runs = nil
			break
		}
		x.runs = rest
		if run.Kind == wire.RunState {
			r.stateRun(&run)
		}
	}
	if len(x.lack) > 0 {
		t := x.lack[0]
		x.lack = x.lack[1:]
		*it = Item{Topic: t, State: reliable.StateMissing, Why: x.why, Number: x.room}
		return true
	}
	if x.ended {
		r.state = nil
	}
	return false
}

// stateRun takes in a run.
func (r *Reader) stateRun(run *wire.Run) {
	x := r.state
	t, s := r.topics.Get(run.Topic), wire.ParseState(run.Body)
	if t == nil || t.refused || t.stated || s.Marks&(wire.StateBegins|wire.StateEnds) != 0 {
		return
	}
	if s.Marks&wire.StateFirst != 0 {
		x.track, x.number, x.buf, x.rest, x.last, x.why = t, run.Number, x.buf[:0], nil, false, events.StateWhole
	}
	if x.track != t || run.Number != x.number {
		return
	}
	n := copy(x.buf[:len(x.rest)], x.rest) // what was delivered is not needed any more
	x.buf = append(x.buf[:n], s.Bytes...)
	x.rest = x.buf
	x.last = s.Marks&wire.StateLast != 0
	if s.Marks&wire.StateFailed != 0 {
		x.why = events.StateUnmade
	}
}

// record fills it with the next record of the topic's state, or with its end.
func (r *Reader) record(it *Item) bool {
	x := r.state
	rec, rest, n, ok := wire.NextRecord(x.rest)
	switch {
	case x.why != events.StateWhole:
	case ok && len(rec) <= r.max:
		x.rest = rest
		*it = Item{Topic: x.track, Number: x.number, Data: rec, State: reliable.StateRecord}
		return true
	case ok || n > wire.RecordLen+r.max:
		x.why = events.StateTooLarge
	case !x.last:
		return false
	case len(x.rest) > 0:
		x.why = events.StateUnmade // it ends within a record
	}
	t := x.track
	x.track, t.stated = nil, true
	if x.why != events.StateWhole {
		*it = Item{Topic: t, State: reliable.StateMissing, Why: x.why}
		return true
	}
	r.beginWith(t.ID, x.number)
	*it = Item{Topic: t, Number: x.number, State: reliable.StateEnd}
	return true
}

// StateRuns returns a copy of the state runs among runs, those of an EventState.
func StateRuns(runs []byte) []byte {
	state := make([]byte, 0, len(runs)) // few others are among them
	for {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			return state
		}
		if run.Kind == wire.RunState {
			state = append(state, runs[:len(runs)-len(rest)]...)
		}
		runs = rest
	}
}
