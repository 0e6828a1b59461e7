package reliable

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// stateRuns are the runs of a packet with state.
type stateRuns []byte

func (b stateRuns) run(topic, number uint64, marks wire.StateMarks, round uint32, bytes []byte) stateRuns {
	at := len(b)
	b = append(b, make([]byte, wire.RunHeaderLen+wire.StateHeaderLen+len(bytes))...)
	wire.PutStateRun(b[at:], topic, number, &wire.State{Marks: marks, Round: round, Bytes: bytes})
	return b
}

// readerSays is what a reader says of events.
func readerSays(r *Reader, events ...Event) (said []string) {
	for i := range events {
		r.Take(&events[i])
		var it Item
		for nextOf(r, &it) {
			name := ""
			if it.Topic != nil {
				name = it.Topic.Name
			}
			switch {
			case it.State == StateRecord:
				said = append(said, fmt.Sprintf("%s@%d %q", name, it.Number, it.Data))
			case it.State == StateEnd:
				said = append(said, fmt.Sprintf("%s@%d", name, it.Number))
			case it.State == StateMissing:
				said = append(said, fmt.Sprintf("%s: %v", name, it.Why))
			case it.Gap():
				said = append(said, fmt.Sprintf("%s gap %d+%d", name, it.Number, it.Lost))
			default:
				said = append(said, fmt.Sprintf("%s#%d %s", name, it.Number, it.Data))
			}
		}
	}
	return said
}

// What a reader makes of state: records over runs and packets, topics without state, and the
// message that follows. docs/protocol.md §2.23, §25.4, §25.6, §25.8.
func TestStateReader(t *testing.T) {
	const a, b = 11, 22
	message := func(number uint64, text string) Event {
		run := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+wire.MessageHeaderLen+len(text))
		wire.PutRun(run[wire.DataHeaderLen:], a, []byte(text))
		wire.SetRunNumber(run[wire.DataHeaderLen:], number)
		return Event{Kind: EventPacket, Packet: run}
	}
	state := func(runs stateRuns) Event { return Event{Kind: EventState, Packet: runs} }
	end := func(why StateCause, topics ...uint64) Event {
		return Event{Kind: EventStateEnd, Seq: 9, State: why, Topics: topics}
	}
	records := wire.AppendRecord(wire.AppendRecord(wire.AppendRecord(nil, []byte("one")), nil), []byte("three"))
	long := wire.AppendRecord(nil, make([]byte, 101))
	for name, c := range map[string]struct {
		events []Event
		want   []string
	}{
		"whole": {[]Event{
			state(stateRuns{}.run(0, 0, wire.StateBegins, 1, nil).run(a, 5, wire.StateFirst|wire.StateLast, 1, records)),
			end(StateWhole, a, b), message(4, "old"), message(5, "new"),
		}, []string{`a@5 "one"`, `a@5 ""`, `a@5 "three"`, "a@5", "b: its publisher keeps none", "a#5 new"}},
		"cut anywhere": {[]Event{
			state(stateRuns{}.run(a, 5, wire.StateFirst, 1, records[:2]).run(a, 5, 0, 1, records[2:5])),
			state(stateRuns{}.run(a, 5, 0, 1, records[5:12])), state(stateRuns{}.run(a, 5, wire.StateLast, 1, records[12:])),
			end(StateWhole, a), message(5, "new"),
		}, []string{`a@5 "one"`, `a@5 ""`, `a@5 "three"`, "a@5", "a#5 new"}},
		"empty, and the next message is lost": {[]Event{
			state(stateRuns{}.run(a, 0, wire.StateFirst|wire.StateLast, 1, nil)), end(StateWhole, a), message(1, "new"),
		}, []string{"a@0", "a gap 0+1", "a#1 new"}},
		"of a topic that nobody has": {[]Event{
			state(stateRuns{}.run(b, 5, wire.StateFirst|wire.StateLast, 1, records)), end(StateWhole, b), message(7, "new"),
		}, []string{`b@5 "one"`, `b@5 ""`, `b@5 "three"`, "b@5", "a#7 new"}},
		"failed": {[]Event{
			state(stateRuns{}.run(a, 5, wire.StateFirst|wire.StateLast|wire.StateFailed, 1, nil)), end(StateWhole, a), message(7, "new"),
		}, []string{"a: its publisher could not make it", "a#7 new"}},
		"ends within a record": {[]Event{
			state(stateRuns{}.run(a, 5, wire.StateFirst|wire.StateLast, 1, records[:10])), end(StateWhole, a),
		}, []string{`a@5 "one"`, "a: its publisher could not make it"}},
		"record too long": {[]Event{
			state(stateRuns{}.run(a, 5, wire.StateFirst, 1, long[:10])), state(stateRuns{}.run(a, 5, wire.StateLast, 1, long[10:])), end(StateWhole, a),
		}, []string{"a: a record of it exceeds the limit for messages"}},
		"none": {[]Event{end(StateOverrun, a), message(3, "new")},
			[]string{"a: " + StateOverrun.String(), "a#3 new"}},
		"overtaken": {[]Event{
			state(stateRuns{}.run(a, 5, wire.StateFirst, 1, records[:7])), {Kind: EventGap, Count: 3, Cause: events.CauseSlowConsumer}, end(StateWhole, a),
		}, []string{`a@5 "one"`, "a: " + StateUnread.String(), "b: " + StateUnread.String()}},
		"later, for others": {[]Event{
			end(StateNotKept), message(0, "x"), {Kind: EventPacket, Packet: append(make([]byte, wire.DataHeaderLen), stateRuns{}.run(a, 1, wire.StateFirst|wire.StateLast, 1, records)...)}, message(1, "y"),
		}, []string{"a#0 x", "a#1 y"}},
	} {
		r := NewReader(4, 100)
		r.AwaitState()
		r.Want(a, "a", nil)
		r.Want(b, "b", nil)
		if got := readerSays(r, c.events...); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A publisher answers who asks, once for all, and no more than its budget gives.
// docs/protocol.md §25.1, §25.3, §25.5.
func TestStateSender(t *testing.T) {
	const ms = Instant(time.Millisecond)
	cfg := senderConfig(SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 1472, WindowPackets: 256, Rate: 1_000_000, StateShare: 0.1})
	var train transport.Outbound
	s, err := NewSender(cfg, make([]byte, cfg.BlockBytes()*(cfg.Blocks()+writerBlocks)), 0)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := s.Topic("x")
	if err != nil {
		t.Fatal(err)
	}
	x := s.NewState(0, s.Grant)
	ask := func(now Instant, id, next uint64) {
		st := wire.Status{Receiver: id, Next: next, Limit: 1 << 20, Echo: uint64(now) + 1}
		s.handleStatus(now, wire.FlagJoining|wire.FlagWantState, &st, nil)
	}
	if ask(ms, 1, 0); x.Due() != Never || s.keepsState() {
		t.Fatal("nothing is kept, and a round is due")
	}
	x.Keep(true)
	ask(2*ms, 1, 0)
	ask(5*ms, 2, 0)
	if due := x.Due(); due != 2*ms+Instant(stateCollect) || !s.keepsState() {
		t.Fatalf("a round is due at %v", due)
	}
	now := x.Due()
	if !x.Begin(now) || !x.Open() || s.Lead() != 1 || !x.Wanted(topic.ID) {
		t.Fatal("no round begins")
	}
	if ask(now, 1, 0); x.Due() != Never {
		t.Error("who is in the round asks for another")
	}
	state := make([]byte, 100_000)
	left, begun, done := state, false, false
	sent := func() int { return len(state) - len(left) }
	for begin := now; !done; {
		left, begun, done = x.Put(now, topic, 7, left, !begun, false)
		x.Flush(now, false)
		for s.Next(now, &train) {
			s.Sent(now, train.Count, 0)
		}
		if most := 100_000*int(now-begin)/int(time.Second) + 8*cfg.PacketSize; sent() > most {
			t.Fatalf("%d bytes after %v, at most %d may be sent", sent(), now-begin, most)
		}
		if due := x.Due(); !done && due <= now {
			t.Fatalf("due at %v, it is %v", due, now)
		}
		if done {
			if took := time.Duration(now - begin); took < 800*time.Millisecond || took > 1200*time.Millisecond {
				t.Errorf("100,000 bytes at 100,000 a second took %v", took)
			}
			break
		}
		now = max(now+1, x.Due())
	}
	if ask(now, 3, 5); x.Due() != Never {
		t.Error("a round is due while one runs")
	}
	for now += 100 * ms; !x.End(now); now += 100 * ms {
	}
	if due := x.Due(); due == Never || x.Open() {
		t.Errorf("no further round for who came later: due at %v", due)
	}
	if st := s.Stats(); st.StateRounds != 1 || st.StateBytes != 100_000 {
		t.Errorf("%+v", st)
	}
}

// A round that must wait when it ends goes on running until what says so has its sequence:
// those who wait would never learn of it. docs/protocol.md §25.3.
func TestStateEndWaits(t *testing.T) {
	cfg := senderConfig(SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 1472, WindowPackets: 256})
	s, err := NewSender(cfg, make([]byte, cfg.BlockBytes()*(cfg.Blocks()+writerBlocks)), 0)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := s.Topic("x")
	if err != nil {
		t.Fatal(err)
	}
	x := s.NewState(0, s.Grant)
	x.Keep(true)
	takes := func(now Instant, limit uint64) { // another subscriber
		s.handleStatus(now, 0, &wire.Status{Receiver: 2, Limit: limit, Echo: uint64(now) + 1}, nil)
	}
	takes(1, 1)
	s.handleStatus(1, wire.FlagJoining|wire.FlagWantState, &wire.Status{Receiver: 1, Limit: 10, Echo: 2}, nil)
	now := x.Due()
	if !x.Begin(now) {
		t.Fatal("no round begins")
	}
	if _, _, done := x.Put(now, topic, 7, []byte("all of it"), true, false); !done {
		t.Fatal("there is no room")
	}
	for range 3 {
		if now++; x.End(now) || !x.Open() || !x.Pending() || s.Blocked() != events.ReasonFlow {
			t.Fatalf("the round is over while a subscriber takes no more: open %v, pending %v, blocked by %v", x.Open(), x.Pending(), s.Blocked())
		}
	}
	now++
	takes(now, 10)
	if now++; !x.End(now) || x.Open() || x.Pending() || s.Lead() != 2 {
		t.Errorf("the round does not end, or twice: open %v, pending %v, %d packets", x.Open(), x.Pending(), s.Lead())
	}
}
