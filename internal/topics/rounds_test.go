package topics

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

const begins, all, ends = wire.IndexBegins, wire.IndexAll, wire.IndexEnds

// index returns an index run; answers are pairs of a receiver and a question.
func index(marks wire.IndexMarks, number uint64, answers ...uint64) string {
	return string(wiretest.Index(marks, number, answers...))
}

// topicRuns returns runs as wiretest.Named has them.
func topicRuns(runs ...string) string { return string(reliable.PacketData(wiretest.Named(0, runs...))) }

// handle handles a data packet with these runs.
func handle(r *received, seq uint64, runs ...string) {
	var b []byte
	for _, run := range runs {
		b = append(b, run...)
	}
	r.Handle(reliable.Instant(seq), 5, wiretest.Data(seq, b))
}

// gone makes the receiver give up packets.
func gone(r *received, first, n uint64) {
	var b wire.RangesBuilder
	b.Begin(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, wire.TypeGone, 0, first, wire.ReasonOverwritten, 0, 512)
	b.Add(first, n)
	r.Handle(1, 5, b.Finish())
}

// asked returns the number of the open question of the receiver's only stream, and from which sequence on. Its status
// must say the same, at once, and name the topics.
func asked(t *testing.T, r *received) (question uint32, since uint64) {
	t.Helper()
	x := &r.first().index
	at := r.statusAt + 1
	statuses := slices.DeleteFunc(replies(r, at), func(p packet) bool { return p.Type != wire.TypeStatus })
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
	late := func(r *received) { handle(r, 5, topicRuns("a.b:5")) }
	first := func(r *received) { handle(r, 0, topicRuns("a.b=0", "a.b:0")) }
	lose := func(seq uint64) func(r *received) {
		return func(r *received) { handle(r, seq+1); gone(r, seq, 1) }
	}
	answer := func(question, since uint64) func(r *received) {
		return func(r *received) {
			handle(r, r.first().packets.Reached(), index(begins, since, 42, question), topicRuns("a.b=6"), index(ends, 1))
		}
	}
	begin := func(question, since uint64) func(r *received) {
		return func(r *received) { handle(r, r.first().packets.Reached(), index(begins, since, 42, question)) }
	}
	want := func(names ...string) func(r *received) {
		return func(r *received) { setTopics(r, 1, names) }
	}
	learn := func(r *received) { r.in.LearnNames(1, &learned{}) }
	for name, c := range map[string]struct {
		do       []func(r *received)
		question uint32
		since    uint64
	}{
		"from the first packet on":           {do: []func(*received){first}},
		"from a later one on":                {do: []func(*received){late}, question: 1},
		"a packet is missing":                {do: []func(*received){first, func(r *received) { handle(r, 2) }}},
		"a packet is lost":                   {do: []func(*received){first, lose(1)}, question: 1, since: 1},
		"two are lost":                       {do: []func(*received){first, lose(1), lose(3)}, question: 2, since: 1},
		"one is lost after a late start":     {do: []func(*received){late, lose(6)}, question: 2},
		"one is lost after the answer":       {do: []func(*received){late, answer(1, 0), lose(7)}, question: 2, since: 7},
		"one is lost within the answer":      {do: []func(*received){first, lose(1), begin(1, 1), lose(4)}, question: 2, since: 1},
		"the end of the answer is lost":      {do: []func(*received){late, begin(1, 0), lose(7), answer(1, 0)}, question: 2},
		"a new question is answered":         {do: []func(*received){late, begin(1, 0), lose(7), answer(2, 0)}},
		"a topic is wanted, too":             {do: []func(*received){first, want("a.b", "c")}, question: 1},
		"another topic is wanted":            {do: []func(*received){late, answer(1, 0), want("c")}, question: 2},
		"a topic is wanted within an answer": {do: []func(*received){late, begin(1, 0), want("a.b", "c")}, question: 2},
		"a topic is wanted no more":          {do: []func(*received){late, answer(1, 0), want("c"), answer(2, 0), want()}},
		"one of two is wanted no more":       {do: []func(*received){late, answer(1, 0), want("a.b", "c"), answer(2, 0), want("c")}},
		"no topic is wanted":                 {do: []func(*received){want(), late}},
		"then a topic is wanted":             {do: []func(*received){want(), late, want("c")}, question: 1},
		"patterns begin with the stream":     {do: []func(*received){learn, first}},
		"patterns begin at the first packet": {do: []func(r *received){func(r *received) { r.Handle(1, 5, heartbeat(0, wire.Heartbeat{SentAt: 1})) }, learn}},
		"patterns begin later":               {do: []func(*received){first, learn}, question: 1},
		"patterns begin after the answer":    {do: []func(*received){late, answer(1, 0), learn}, question: 2},
		"a topic is wanted besides patterns": {do: []func(*received){learn, first, want("c")}},
		"a reader was overtaken":             {do: []func(*received){first, func(r *received) { r.first().Missed(0) }}, question: 1},
		"further ahead than it asked": {do: []func(*received){first, lose(1), func(r *received) { r.first().Missed(0) }},
			question: 2},
		"a reader was overtaken behind it": {do: []func(*received){first, lose(1), func(r *received) { r.first().Missed(2) }},
			question: 1, since: 1},
		"a reader was overtaken within the answer": {do: []func(*received){first, lose(1), begin(1, 1), func(r *received) { r.first().Missed(3) }},
			question: 2, since: 1},
		"the publisher was lost": {do: []func(r *received){first, func(r *received) {
			handle(r, 3)
			r.tick(reliable.Instant(time.Minute))
			handle(r, 4)
		}}, question: 1, since: 1},
		"the stream has ended": {do: []func(*received){first, func(r *received) {
			for at := range uint64(2) {
				r.Handle(1, 5, heartbeat(wire.FlagEnd, wire.Heartbeat{Lead: 1, SentAt: at + 1}))
			}
			r.first().Missed(0)
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceived(t, nil)
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
			r := newReceived(t, nil)
			for seq := range uint64(3) {
				handle(r, seq, topicRuns("a.b:1"))
			}
			handle(r, 7)
			gone(r, 3, 4)
			for i, runs := range c.packets {
				if handle(r, at+uint64(i), runs); len(r.listed) > 0 && i < int(c.begun)-at {
					t.Errorf("listed at packet %d", i)
				}
			}
			if q, _ := asked(t, r); (q == 0) != (c.begun > 0) {
				t.Errorf("question %d is open", q)
			}
			want := []Listing{{Since: 3, Begun: c.begun}}
			if c.begun == 0 {
				want = nil
			}
			if !slices.Equal(r.listed, want) {
				t.Errorf("listed %v, want %v", r.listed, want)
			}
		})
	}
}

// The packets of a round that wait for a missing one answer when their turn comes; the loss of the publisher is
// reported behind them. docs/protocol §9.3.
func TestIndexRoundInOrder(t *testing.T) {
	var order []string
	r := newReceived(t, nil)
	r.onPacket = func(st *reliable.Stream) { order = append(order, fmt.Sprint(st.Next(), len(r.listed), len(r.lost))) }
	handle(r, 1, topicRuns("a.b:0"))
	handle(r, 3, index(begins, 0, 42, 1), topicRuns("a.b=1"))
	handle(r, 5, index(ends, 1))
	if q, _ := asked(t, r); q != 1 || len(order) != 1 {
		t.Errorf("question %d, delivered %v", q, order)
	}
	handle(r, 4)
	handle(r, 2)
	handle(r, 7)
	r.tick(reliable.Instant(time.Minute))
	handle(r, 8)
	if want := []string{"1 0 0", "2 0 0", "3 0 0", "4 0 0", "5 0 0", "7 1 0", "8 1 1"}; !slices.Equal(order, want) || !slices.Equal(r.listed, []Listing{{Since: 0, Begun: 3}}) || len(r.gaps) != 1 {
		t.Errorf("packets with rounds and losses before them: %q, want %q; listed %v, gaps %v", order, want, r.listed, r.gaps)
	}
}

// Two names with the same id: docs/vectors/hashes.json.
const name, twin = "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"

// named returns a topic run with the id of a topic and a name.
func named(topic, text string) string { return string(wiretest.Run(wire.RunTopic, topic, 0, text)) }

// A publisher with another topic under the id of a wanted one is reported once, as a typed error, whether the topic run
// is in a round or not, and again for later subscriptions; one with the right name is not. docs/protocol §3.6.
func TestTopicCollisionOfAnotherProcess(t *testing.T) {
	r := newReceived(t, nil)
	setTopics(r, 0, []string{name})
	id := wire.TopicID(name)
	handle(r, 0)
	st := r.first()
	handle(r, 1, named(name, name), named("a.c", twin))
	if len(r.collisions) != 0 || !st.Relevant() || r.in.PublisherMissing() {
		t.Fatalf("with the right name: collisions %v, relevant %v", r.collisions, st.Relevant())
	}
	handle(r, 2, named(twin, twin))
	handle(r, 3, index(begins|all, 0), named(twin, twin), named(twin, twin), index(ends, 1))
	want := events.TopicCollisionError{ID: events.ID(id), Known: name, Other: twin, Publisher: 7}
	if len(r.collisions) != 1 || r.collisions[0] != want || r.in.Stats().Collisions != 1 {
		t.Fatalf("collisions %+v, counter %d; want once %+v", r.collisions, r.in.Stats().Collisions, want)
	}
	if err := error(&r.collisions[0]); !errors.Is(err, events.ErrTopicCollision) {
		t.Errorf("%v does not match ErrTopicCollision", err)
	}
	setTopics(r, 4, []string{name, "c"})
	handle(r, 4, named(twin, twin))
	if err := st.Collided(id); len(r.collisions) != 1 || err == nil || *err != want || st.Collided(id+1) != nil {
		t.Errorf("reported again: %v; for a later subscription: %v", r.collisions, err)
	}
	setTopics(r, 5, []string{"c"})
	setTopics(r, 5, []string{name}) // begins again
	if st.Collided(id) != nil {
		t.Error("a collision of a topic that is no longer wanted is still stored")
	}
	// The round that the receiver asks for then is the first to show it.
	handle(r, 5, index(begins, 0, 42, uint64(st.index.number)), named(twin, twin), index(ends, 1))
	// A name in another stream is irrelevant for this one, and a publisher with only the other name is not relevant.
	other := wiretest.Data(0, []byte(named(twin, twin)))
	other[24] = 4 // its epoch
	r.Handle(6, 5, other)
	if st := r.in.list[1]; st.packets.Epoch != 4 || st.Relevant() || len(r.collisions) != 3 {
		t.Errorf("epoch %d relevant %v collisions %d", st.packets.Epoch, st.Relevant(), len(r.collisions))
	}
}

// Any host that can send packets can assign any name to any id. A name with another id is counted,
// and has no other effect. docs/protocol §3.6.
func TestWrongNameIsNoCollision(t *testing.T) {
	for what, said := range map[string]string{"another id's": "a.c", "no topic's": "a..b", "a pattern": "a.*", "escapes": "\x1b[2J"} {
		for _, patterns := range []bool{false, true} {
			names := &learned{}
			r := newReceived(t, nil)
			if patterns {
				r.in.LearnNames(0, names)
			}
			handle(r, 0, named("a.b", said))
			st := r.first()
			if len(r.collisions) != 0 || st.Collided(wire.TopicID("a.b")) != nil || st.Relevant() || r.in.Stats().NamesRefused != 1 || len(names.all) > 0 {
				t.Errorf("%s: %v, relevant %v, %d names refused", what, r.collisions, st.Relevant(), r.in.Stats().NamesRefused)
			}
			if handle(r, 1, named("a.b", "a.b")); !st.Relevant() || r.in.Stats().NamesRefused != 1 {
				t.Errorf("%s: the right name after it is not accepted", what)
			}
		}
	}
}

// A publisher may have a wanted topic until its topics are known, without that one; it is known to have the topic from
// a topic run on. docs/protocol §14.3.
func TestPublisherOfAWantedTopic(t *testing.T) {
	expect := func(r *received, when string, may, missing bool) {
		t.Helper()
		if st := r.first(); st.MayConcern() != may || r.in.PublisherMissing() != missing {
			t.Errorf("%s: may concern %v, missing %v", when, st.MayConcern(), r.in.PublisherMissing())
		}
	}
	r := newReceived(t, nil)
	if !r.in.PublisherMissing() {
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
	if got := r.first().Announced(); !slices.Equal(got, []string{"a.b", "c"}) {
		t.Errorf("topics %q", got)
	}
	r.tick(reliable.Instant(time.Minute))
	expect(r, "lost", true, true)
}
