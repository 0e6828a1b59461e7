package reliable

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

const begins, all, ends = wire.IndexBegins, wire.IndexAll, wire.IndexEnds

// index returns an index run; answers are pairs of a receiver and a question.
func index(marks wire.IndexMarks, number uint64, answers ...uint64) string {
	return string(wiretest.Index(marks, number, answers...))
}

// topicRuns returns runs as wiretest.Named has them.
func topicRuns(runs ...string) string { return string(PacketData(wiretest.Named(0, runs...))) }

// handle handles a data packet with these runs.
func handle(r *Receiver, seq uint64, runs ...string) {
	var b []byte
	for _, run := range runs {
		b = append(b, run...)
	}
	r.Handle(Instant(seq), 5, wiretest.Data(seq, b))
}

// gone makes the receiver give up packets.
func gone(r *Receiver, first, n uint64) {
	var b wire.RangesBuilder
	b.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeGone, 0, first, wire.ReasonOverwritten, 0, 512)
	b.Add(first, n)
	r.Handle(1, 5, b.Finish())
}

// asked returns the number of the open question of the receiver's only stream, and from which sequence on. Its status
// must say the same, at once, and name the topics.
func asked(t *testing.T, r *Receiver) (question uint32, since uint64) {
	t.Helper()
	x := &r.list[0].topics.index
	at := r.list[0].report.sentAt + 1
	statuses := of(wire.TypeStatus, replies(r, at))
	if x.open && len(statuses) == 0 {
		t.Error("the question is not sent at once")
	}
	for _, p := range statuses {
		st, err := wire.ParseStatus(p.b)
		open, names := p.Flags&wire.FlagWantTopics != 0, st.Topics() > 0 || p.Flags&wire.FlagMoreTopics != 0
		if err != nil || open != x.open || open && (st.Question != x.number || st.Since != x.since || !names) {
			t.Errorf("%v: %v, question %+v", p.Flags, st, x)
		}
	}
	if !x.open {
		return 0, 0
	}
	return x.number, x.since
}

// docs/protocol §9.3.
func TestReceiverAsksForIndexRounds(t *testing.T) {
	late := func(r *Receiver) { handle(r, 5, topicRuns("a.b:5")) }
	first := func(r *Receiver) { handle(r, 0, topicRuns("a.b=0", "a.b:0")) }
	lose := func(seq uint64) func(r *Receiver) {
		return func(r *Receiver) { handle(r, seq+1); gone(r, seq, 1) }
	}
	answer := func(question, since uint64) func(r *Receiver) {
		return func(r *Receiver) {
			handle(r, r.list[0].next, index(begins, since, 42, question), topicRuns("a.b=6"), index(ends, 1))
		}
	}
	begin := func(question, since uint64) func(r *Receiver) {
		return func(r *Receiver) { handle(r, r.list[0].next, index(begins, since, 42, question)) }
	}
	want := func(names ...string) func(r *Receiver) {
		return func(r *Receiver) { setTopics(r, 1, names) }
	}
	learn := func(r *Receiver) { r.LearnNames(1, &learned{}) }
	for name, c := range map[string]struct {
		do       []func(r *Receiver)
		question uint32
		since    uint64
	}{
		"from the first packet on":           {do: []func(*Receiver){first}},
		"from a later one on":                {do: []func(*Receiver){late}, question: 1},
		"a packet is missing":                {do: []func(*Receiver){first, func(r *Receiver) { handle(r, 2) }}},
		"a packet is lost":                   {do: []func(*Receiver){first, lose(1)}, question: 1, since: 1},
		"two are lost":                       {do: []func(*Receiver){first, lose(1), lose(3)}, question: 2, since: 1},
		"one is lost after a late start":     {do: []func(*Receiver){late, lose(6)}, question: 2},
		"one is lost after the answer":       {do: []func(*Receiver){late, answer(1, 0), lose(7)}, question: 2, since: 7},
		"one is lost within the answer":      {do: []func(*Receiver){first, lose(1), begin(1, 1), lose(4)}, question: 2, since: 1},
		"the end of the answer is lost":      {do: []func(*Receiver){late, begin(1, 0), lose(7), answer(1, 0)}, question: 2},
		"a new question is answered":         {do: []func(*Receiver){late, begin(1, 0), lose(7), answer(2, 0)}},
		"a topic is wanted, too":             {do: []func(*Receiver){first, want("a.b", "c")}, question: 1},
		"another topic is wanted":            {do: []func(*Receiver){late, answer(1, 0), want("c")}, question: 2},
		"a topic is wanted within an answer": {do: []func(*Receiver){late, begin(1, 0), want("a.b", "c")}, question: 2},
		"a topic is wanted no more":          {do: []func(*Receiver){late, answer(1, 0), want("c"), answer(2, 0), want()}},
		"one of two is wanted no more":       {do: []func(*Receiver){late, answer(1, 0), want("a.b", "c"), answer(2, 0), want("c")}},
		"no topic is wanted":                 {do: []func(*Receiver){want(), late}},
		"then a topic is wanted":             {do: []func(*Receiver){want(), late, want("c")}, question: 1},
		"patterns begin with the stream":     {do: []func(*Receiver){learn, first}},
		"patterns begin at the first packet": {do: []func(r *Receiver){func(r *Receiver) { r.Handle(1, 5, heartbeatOf(3, 0, wire.Heartbeat{SentAt: 1})) }, learn}},
		"patterns begin later":               {do: []func(*Receiver){first, learn}, question: 1},
		"patterns begin after the answer":    {do: []func(*Receiver){late, answer(1, 0), learn}, question: 2},
		"a topic is wanted besides patterns": {do: []func(*Receiver){learn, first, want("c")}},
		"a reader was overtaken":             {do: []func(*Receiver){first, func(r *Receiver) { r.list[0].Missed(0) }}, question: 1},
		"further ahead than it asked": {do: []func(*Receiver){first, lose(1), func(r *Receiver) { r.list[0].Missed(0) }},
			question: 2},
		"a reader was overtaken behind it": {do: []func(*Receiver){first, lose(1), func(r *Receiver) { r.list[0].Missed(2) }},
			question: 1, since: 1},
		"a reader was overtaken within the answer": {do: []func(*Receiver){first, lose(1), begin(1, 1), func(r *Receiver) { r.list[0].Missed(3) }},
			question: 2, since: 1},
		"the publisher was lost": {do: []func(r *Receiver){first, func(r *Receiver) {
			handle(r, 3)
			r.Tick(Instant(time.Minute))
			handle(r, 4)
		}}, question: 1, since: 1},
		"the stream has ended": {do: []func(*Receiver){first, func(r *Receiver) {
			for at := range uint64(2) {
				r.Handle(1, 5, heartbeatOf(3, wire.FlagEnd, wire.Heartbeat{Lead: 1, SentAt: at + 1}))
			}
			r.list[0].Missed(0)
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, &log{}, nil)
			for _, do := range c.do {
				do(r)
			}
			if q, since := asked(t, r); q != c.question || since != c.since {
				t.Errorf("question %d from sequence %d on, want %d from %d on", q, since, c.question, c.since)
			}
		})
	}
}

// A round answers a question if it names receiver and question, or has all topics from there on. What it covers is
// reported behind its last packet. Damaged and forged rounds answer nothing. docs/protocol §9.3.
func TestIndexRoundAnswers(t *testing.T) {
	const at = 8 // packets 3 to 5 are lost, and the round begins here
	for name, c := range map[string]struct {
		packets []string
		begun   uint64 // 0: it answers nothing
	}{
		"the question":                  {[]string{index(begins, 3, 42, 1) + index(ends, 1)}, at},
		"among others":                  {[]string{index(begins, 0, 41, 9, 42, 1, 43, 1) + index(ends, 1)}, at},
		"an earlier question":           {[]string{index(begins, 3, 42, 0) + index(ends, 1)}, 0},
		"of another receiver":           {[]string{index(begins, 3, 41, 1) + index(ends, 1)}, 0},
		"all topics":                    {[]string{index(begins|all, 3) + index(ends, 1)}, at},
		"all topics since earlier":      {[]string{index(begins|all, 0, 41, 7) + index(ends, 1)}, at},
		"all topics since later":        {[]string{index(begins|all, 4) + index(ends, 1)}, 0},
		"not all topics":                {[]string{index(begins, 0) + index(ends, 1)}, 0},
		"in several packets":            {[]string{topicRuns("a.b:1"), index(begins, 3, 42, 1), topicRuns("x=1", "a.b:2"), "", index(ends, 1)}, at + 1},
		"no end":                        {[]string{index(begins, 3, 42, 1), topicRuns("x=1")}, 0},
		"no beginning":                  {[]string{topicRuns("x=1"), index(ends, 1)}, 0},
		"no marks":                      {[]string{index(0, 3, 42, 1), index(all, 3), index(ends, 1)}, 0},
		"a round for others behind it":  {[]string{index(begins, 3, 41, 1) + index(ends, 1), index(begins, 3, 42, 1) + index(ends, 1)}, at + 1},
		"a round for others before it":  {[]string{index(begins, 3, 42, 1) + index(ends, 1), index(begins, 9, 41, 1) + index(ends, 1)}, at},
		"begins again":                  {[]string{index(begins, 3, 42, 1), index(begins, 3, 42, 1) + index(ends, 1)}, at + 1},
		"another begins before its end": {[]string{index(begins, 3, 42, 1), index(begins, 3, 41, 1) + index(ends, 1)}, 0},
		"begins and ends at once":       {[]string{index(begins|ends, 3, 42, 1)}, 0},
		"ends twice":                    {[]string{index(begins, 3, 42, 1) + index(ends, 1), index(ends, 1)}, at},
	} {
		t.Run(name, func(t *testing.T) {
			l := &log{}
			r := newReceiver(t, l, nil)
			for seq := range uint64(3) {
				handle(r, seq, topicRuns("a.b:1"))
			}
			handle(r, 7)
			gone(r, 3, 4)
			for i, runs := range c.packets {
				if handle(r, at+uint64(i), runs); len(l.listed) > 0 && i < int(c.begun)-at {
					t.Errorf("listed at packet %d", i)
				}
			}
			if q, _ := asked(t, r); (q == 0) != (c.begun > 0) {
				t.Errorf("question %d is open", q)
			}
			want := []EventListing{{3, c.begun, 0}}
			if c.begun == 0 {
				want = nil
			}
			if !slices.Equal(l.listed, want) {
				t.Errorf("listed %v, want %v", l.listed, want)
			}
		})
	}
}

// The packets of a round that wait for a missing one answer when their turn comes; the loss of the publisher is
// reported behind them. docs/protocol §9.3.
func TestIndexRoundInOrder(t *testing.T) {
	var order []string
	l := &log{}
	l.onPacket = func(st *Stream, _ []byte) { order = append(order, fmt.Sprint(st.Next(), len(l.listed), len(l.lost))) }
	r := newReceiver(t, l, nil)
	handle(r, 1, topicRuns("a.b:0"))
	handle(r, 3, index(begins, 0, 42, 1), topicRuns("a.b=1"))
	handle(r, 5, index(ends, 1))
	if q, _ := asked(t, r); q != 1 || len(order) != 1 {
		t.Errorf("question %d, delivered %v", q, order)
	}
	handle(r, 4)
	handle(r, 2)
	handle(r, 7)
	r.Tick(Instant(time.Minute))
	handle(r, 8)
	if want := []string{"1 0 0", "2 0 0", "3 0 0", "4 0 0", "5 0 0", "7 1 0", "8 1 1"}; !slices.Equal(order, want) || !slices.Equal(l.listed, []EventListing{{0, 3, 0}}) || len(l.gaps) != 1 {
		t.Errorf("packets with rounds and losses before them: %q, want %q; listed %v, gaps %v", order, want, l.listed, l.gaps)
	}
}

// Two names with the same id: docs/vectors/hashes.json.
const name, twin = "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"

// named returns a topic run with the id of a topic and a name.
func named(topic, text string) string { return string(wiretest.Run(wire.RunTopic, topic, 0, text)) }

// A publisher with another topic under the id of a wanted one is reported once, as a typed error, whether the topic run
// is in a round or not, and again for later subscriptions; one with the right name is not. docs/protocol §3.6.
func TestTopicCollisionOfAnotherProcess(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	setTopics(r, 0, []string{name})
	id := wire.TopicID(name)
	handle(r, 0)
	st := r.Streams()[0]
	handle(r, 1, named(name, name), named("a.c", twin))
	if len(l.collisions) != 0 || !st.Relevant() || r.PublisherMissing() {
		t.Fatalf("with the right name: collisions %v, relevant %v", l.collisions, st.Relevant())
	}
	handle(r, 2, named(twin, twin))
	handle(r, 3, index(begins|all, 0), named(twin, twin), named(twin, twin), index(ends, 1))
	want := events.TopicCollisionError{ID: events.ID(id), Known: name, Other: twin, Publisher: 7}
	if len(l.collisions) != 1 || l.collisions[0] != want || r.Stats().Collisions != 1 {
		t.Fatalf("collisions %+v, counter %d; want once %+v", l.collisions, r.Stats().Collisions, want)
	}
	if err := error(&l.collisions[0]); !errors.Is(err, events.ErrTopicCollision) {
		t.Errorf("%v does not match ErrTopicCollision", err)
	}
	setTopics(r, 4, []string{name, "c"})
	handle(r, 4, named(twin, twin))
	if err := st.Collided(id); len(l.collisions) != 1 || err == nil || *err != want || st.Collided(id+1) != nil {
		t.Errorf("reported again: %v; for a later subscription: %v", l.collisions, err)
	}
	setTopics(r, 5, []string{"c"})
	setTopics(r, 5, []string{name}) // begins again
	if st.Collided(id) != nil {
		t.Error("a collision of a topic that is no longer wanted is still stored")
	}
	// The round that the receiver asks for then is the first to show it.
	handle(r, 5, index(begins, 0, 42, uint64(st.topics.index.number)), named(twin, twin), index(ends, 1))
	// A name in another stream is irrelevant for this one, and a publisher with only the other name is not relevant.
	other := wiretest.Data(0, []byte(named(twin, twin)))
	other[24] = 4 // its epoch
	r.Handle(6, 5, other)
	if st := r.Streams()[1]; st.Epoch != 4 || st.Relevant() || len(l.collisions) != 3 {
		t.Errorf("epoch %d relevant %v collisions %d", st.Epoch, st.Relevant(), len(l.collisions))
	}
}

// Any host that can send packets can assign any name to any id. A name with another id is counted,
// and has no other effect. docs/protocol §3.6.
func TestWrongNameIsNoCollision(t *testing.T) {
	for what, said := range map[string]string{"another id's": "a.c", "no topic's": "a..b", "a pattern": "a.*", "escapes": "\x1b[2J"} {
		for _, patterns := range []bool{false, true} {
			l, names := &log{}, &learned{}
			r := newReceiver(t, l, nil)
			if patterns {
				r.LearnNames(0, names)
			}
			handle(r, 0, named("a.b", said))
			st := r.Streams()[0]
			if len(l.collisions) != 0 || st.Collided(wire.TopicID("a.b")) != nil || st.Relevant() || r.Stats().NamesRefused != 1 || len(names.all) > 0 {
				t.Errorf("%s: %v, relevant %v, %d names refused", what, l.collisions, st.Relevant(), r.Stats().NamesRefused)
			}
			if handle(r, 1, named("a.b", "a.b")); !st.Relevant() || r.Stats().NamesRefused != 1 {
				t.Errorf("%s: the right name after it is not accepted", what)
			}
		}
	}
}

// A publisher may have a wanted topic until its topics are known, without that one; it is known to have the topic from
// a topic run on. docs/protocol §14.3.
func TestPublisherOfAWantedTopic(t *testing.T) {
	expect := func(r *Receiver, when string, may, missing bool) {
		t.Helper()
		if st := r.Streams()[0]; st.MayConcern() != may || r.PublisherMissing() != missing {
			t.Errorf("%s: may concern %v, missing %v", when, st.MayConcern(), r.PublisherMissing())
		}
	}
	r := newReceiver(t, &log{}, nil)
	if !r.PublisherMissing() {
		t.Error("a topic without publishers is not reported")
	}
	handle(r, 5, topicRuns("other=5"))
	expect(r, "before the round", true, true)
	handle(r, 6, index(begins, 0, 42, 1), topicRuns("other=5"), index(ends, 1))
	expect(r, "after a round without the topic", false, true)
	handle(r, 7, topicRuns("a.b=0"))
	expect(r, "with the topic", true, false)
	setTopics(r, 7, []string{"a.b", "c"})
	expect(r, "another topic is wanted", true, true)
	handle(r, 8, index(begins, 0, 42, 2), topicRuns("a.b=0", "c=7"), index(ends, 1))
	expect(r, "after its round", true, false)
	if got := r.Streams()[0].Announced(); !slices.Equal(got, []string{"a.b", "c"}) {
		t.Errorf("topics %q", got)
	}
	r.Tick(Instant(time.Minute))
	expect(r, "lost", true, true)
}
