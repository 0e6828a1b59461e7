package topics

import (
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// stateRuns are the runs of a packet with state.
type stateRuns []byte

func (b stateRuns) run(topic, number uint64, marks wire.StateMarks, round uint32, bytes []byte) stateRuns {
	at := len(b)
	b = append(b, make([]byte, wire.RunHeaderLen+wire.StateHeaderLen+len(bytes))...)
	wire.PutStateRun(b[at:], topic, number, &wire.State{Marks: marks, Round: round, Bytes: bytes})
	return b
}

// itemsOf passes events of both layers to a reader and returns its items as texts.
func itemsOf(r *Reader, events ...any) (texts []string) {
	for _, e := range events {
		switch e := e.(type) {
		case reliable.Event:
			r.Take(&e)
		case Event:
			r.TakeNote(&e)
		}
		var it Item
		for nextOf(r, &it) {
			name := ""
			if it.Topic != nil {
				name = it.Topic.Name
			}
			switch {
			case it.State == reliable.StateRecord:
				texts = append(texts, fmt.Sprintf("%s@%d %q", name, it.Number, it.Data))
			case it.State == reliable.StateEnd:
				texts = append(texts, fmt.Sprintf("%s@%d", name, it.Number))
			case it.State == reliable.StateMissing:
				texts = append(texts, fmt.Sprintf("%s: %v", name, it.Why))
			case it.Gap():
				texts = append(texts, fmt.Sprintf("%s gap %d+%d", name, it.Number, it.Lost))
			default:
				texts = append(texts, fmt.Sprintf("%s#%d %s", name, it.Number, it.Data))
			}
		}
	}
	return texts
}

// A reader reads records across runs and packets, reports topics without state, and continues with the next message.
// docs/protocol §2.23, §25.4, §25.6, §25.8.
func TestStateReader(t *testing.T) {
	const a, b = 11, 22
	message := func(number uint64, text string) reliable.Event {
		run := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+wire.MessageHeaderLen+len(text))
		wire.PutRun(run[wire.DataHeaderLen:], a, []byte(text))
		wire.SetRunNumber(run[wire.DataHeaderLen:], number)
		return reliable.Event{Kind: reliable.EventPacket, Packet: run}
	}
	state := func(runs stateRuns) Event { return Event{Kind: EventState, Runs: runs} }
	end := func(why events.StateCause, topics ...uint64) Event {
		return Event{Kind: EventStateEnd, Seq: 9, State: why, Topics: topics}
	}
	records := wire.AppendRecord(wire.AppendRecord(wire.AppendRecord(nil, []byte("one")), nil), []byte("three"))
	long := wire.AppendRecord(nil, make([]byte, 101))
	for name, c := range map[string]struct {
		events []any
		want   []string
	}{
		"whole": {[]any{
			state(stateRuns{}.run(0, 0, wire.StateBegins, 1, nil).run(a, 5, wire.StateFirst|wire.StateLast, 1, records)),
			end(events.StateWhole, a, b), message(4, "old"), message(5, "new"),
		}, []string{`a@5 "one"`, `a@5 ""`, `a@5 "three"`, "a@5", "b: its publisher keeps none", "a#5 new"}},
		"records divided anywhere": {[]any{
			state(stateRuns{}.run(a, 5, wire.StateFirst, 1, records[:2]).run(a, 5, 0, 1, records[2:5])),
			state(stateRuns{}.run(a, 5, 0, 1, records[5:12])), state(stateRuns{}.run(a, 5, wire.StateLast, 1, records[12:])),
			end(events.StateWhole, a), message(5, "new"),
		}, []string{`a@5 "one"`, `a@5 ""`, `a@5 "three"`, "a@5", "a#5 new"}},
		"empty, next message lost": {[]any{
			state(stateRuns{}.run(a, 0, wire.StateFirst|wire.StateLast, 1, nil)), end(events.StateWhole, a), message(1, "new"),
		}, []string{"a@0", "a gap 0+1", "a#1 new"}},
		"of another topic only": {[]any{
			state(stateRuns{}.run(b, 5, wire.StateFirst|wire.StateLast, 1, records)), end(events.StateWhole, b), message(7, "new"),
		}, []string{`b@5 "one"`, `b@5 ""`, `b@5 "three"`, "b@5", "a#7 new"}},
		"failed": {[]any{
			state(stateRuns{}.run(a, 5, wire.StateFirst|wire.StateLast|wire.StateFailed, 1, nil)), end(events.StateWhole, a), message(7, "new"),
		}, []string{"a: its publisher could not make it", "a#7 new"}},
		"ends within a record": {[]any{
			state(stateRuns{}.run(a, 5, wire.StateFirst|wire.StateLast, 1, records[:10])), end(events.StateWhole, a),
		}, []string{`a@5 "one"`, "a: its publisher could not make it"}},
		"record too long": {[]any{
			state(stateRuns{}.run(a, 5, wire.StateFirst, 1, long[:10])), state(stateRuns{}.run(a, 5, wire.StateLast, 1, long[10:])), end(events.StateWhole, a),
		}, []string{"a: a record of it exceeds the limit for messages"}},
		"no state": {[]any{end(events.StateOverrun, a), message(3, "new")},
			[]string{"a: " + events.StateOverrun.String(), "a#3 new"}},
		"packets missed": {[]any{
			state(stateRuns{}.run(a, 5, wire.StateFirst, 1, records[:7])), reliable.Event{Kind: reliable.EventGap, Count: 3, Cause: events.CauseSlowConsumer}, end(events.StateWhole, a),
		}, []string{`a@5 "one"`, "a: " + events.StateUnread.String(), "b: " + events.StateUnread.String()}},
		"state of other subscribers after the end": {[]any{
			end(events.StateNotKept), message(0, "x"), reliable.Event{Kind: reliable.EventPacket, Packet: append(make([]byte, wire.DataHeaderLen), stateRuns{}.run(a, 1, wire.StateFirst|wire.StateLast, 1, records)...)}, message(1, "y"),
		}, []string{"a#0 x", "a#1 y"}},
	} {
		r := NewReader(4, 100)
		r.AwaitState()
		r.Want(a, "a", nil)
		r.Want(b, "b", nil)
		if got := itemsOf(r, c.events...); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: items %q, want %q", name, got, c.want)
		}
	}
}
