package topics

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Topics that begin with a message of a given number. docs/protocol §9.8.

// From makes a wanted topic, of which nothing was delivered yet, begin with message number. Earlier messages are
// ignored. Later ones that are missing, because the stream was joined too late, are a gap. A refused topic begins as
// trust.go says.
func (r *Reader) From(id, number uint64) {
	r.numbered = r.start > 0
	r.beginWith(id, number)
}

// beginWith is From for a topic that is known to lack nothing from message number on.
func (r *Reader) beginWith(id, number uint64) {
	t := r.topics.Get(id)
	if t == nil || t.refused {
		return
	}
	t.known, t.from = false, number+1
}

// unbegun reports whether some topic that begins with a given message lacks an unknown number of messages: none of it
// arrived, and the stream's topics were not listed.
func (r *Reader) unbegun() (some bool) {
	if r.numbered {
		r.topics.All(func(_ uint64, t *Track) { some = some || t.from > 0 })
	}
	return some
}

// reached reports whether the run reaches the message that the topic begins with, and removes earlier messages from it.
func (t *Track) reached(run *wire.Run) bool {
	begin := t.from - 1
	if run.Number >= begin {
		return true
	}
	if run.Kind != wire.RunMessages {
		return false
	}
	for ; run.Number < begin; run.Number++ {
		_, rest, ok := wire.NextMessage(run.Body)
		if !ok {
			return false
		}
		run.Body = rest
	}
	return len(run.Body) > 0
}

// gapFrom fills in it with the gap of a topic that begins with a given message, if its first present message is a later
// one.
func (r *Reader) gapFrom(t *Track, number uint64, it *Item) bool {
	begin := t.from - 1
	if number <= begin {
		return false
	}
	cause := events.CauseGone
	if r.skipped {
		cause = r.cause
	}
	*it = Item{Topic: t, Number: begin, Lost: number - begin, Cause: cause}
	if wire.Returns(begin, number) { // it is not known how many of the numbers between were used
		it.Lost, it.Unknown = 0, true
	}
	return true
}

// State for the topics that a reader wants. docs/protocol §25.

// stateReader reads state for a Reader.
type stateReader struct {
	runs   []byte // rest of the event's runs
	track  *Track // topic of the state being read; nil: none
	number uint64 // number of the first message that the state does not cover
	buf    []byte // state received so far
	rest   []byte // of buf: not read as records yet
	last   bool   // buf has the end of the state
	ended  bool   // the round has ended
	why    events.StateCause
	room   uint64   // with StateOverrun: bytes of the window
	lack   []*Track // topics without state, to be reported; valid when ended
}

// AwaitState says that the stream begins with state, or with an EventStateEnd that says why it does not.
func (r *Reader) AwaitState() { r.state = new(stateReader) }

// WithoutState says that a wanted topic does not begin with state.
func (r *Reader) WithoutState(id uint64) {
	if t := r.topics.Get(id); t != nil {
		t.stated = true
	}
}

// takeState begins the next state runs.
func (r *Reader) takeState(runs []byte) {
	if x := r.state; x != nil && !x.ended {
		r.rejudge()
		x.runs = runs
	}
}

// SkipState records that events were left out. If the state was still to be read they may have contained it.
func (r *Reader) SkipState() {
	if x := r.state; x != nil && !x.ended {
		r.endState(1, events.StateUnread, nil)
	}
}

// endState ends the state. The stream continues with sequence at. topics are those that the publisher has.
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

// drop removes a topic.
func (x *stateReader) drop(id uint64) {
	if x.track != nil && x.track.ID == id {
		x.track = nil
	}
	x.lack = slices.DeleteFunc(x.lack, func(t *Track) bool { return t.ID == id })
}

// nextState fills in it with the next part of the state. It returns false if there is none.
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

// stateRun adds a run of state.
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
	n := copy(x.buf[:len(x.rest)], x.rest) // delivered records are not needed any more
	x.buf = append(x.buf[:n], s.Bytes...)
	x.rest = x.buf
	x.last = s.Marks&wire.StateLast != 0
	if s.Marks&wire.StateFailed != 0 {
		x.why = events.StateUnmade
	}
}

// record fills in it with the next record of the topic's state, or with the state's end.
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

// StateRuns returns a copy of the state runs among runs, which are those of an EventState.
func StateRuns(runs []byte) []byte {
	state := make([]byte, 0, len(runs)) // most runs are state
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
