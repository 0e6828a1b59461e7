package topics

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// querier is a publisher with receivers that it may query.
type querier struct {
	*bench
	receivers     []*received
	losesStatuses bool // loses statuses
}

// wantsNames is a subscriber to patterns.
type wantsNames struct {
	r        *received
	patterns []pattern.Pattern
}

func (w *wantsNames) Named(*reliable.Stream, uint64, string, uint64, bool)  {}
func (w *wantsNames) Forgotten(*reliable.Stream, uint64)                    {}
func (w *wantsNames) Untrusted(*reliable.Stream, uint64, string, int, bool) {}
func (w *wantsNames) Wants(id uint64) bool {
	name, _ := w.r.in.Name(id)
	for _, p := range w.patterns {
		if p.Match(name) {
			return true
		}
	}
	return false
}

// receive adds a receiver with these topics and patterns.
func (a *querier) receive(names ...string) *wantsNames {
	a.t.Helper()
	n := uint64(len(a.receivers))
	r := newReceived(a.t, func(c *reliable.ReceiverConfig) { c.ID = 42 + n })
	r.in.Unwant("a.b")
	w := &wantsNames{r: r}
	for _, name := range names {
		if p, err := pattern.Parse(name); err != nil {
			a.t.Fatal(err)
		} else if p.Wild() {
			w.patterns = append(w.patterns, p)
			r.in.LearnNames(a.now, w)
		} else {
			r.in.Want(name)
		}
	}
	r.in.TopicsChanged(a.now)
	a.receivers = append(a.receivers, r)
	return w
}

// run delivers packets for d, and returns the number of statuses.
func (a *querier) run(d time.Duration) (statuses int) {
	for end := a.now.Add(d); a.now < end; a.now += ms / 2 {
		a.index()
		for _, p := range a.next() {
			for _, r := range a.receivers {
				r.Handle(a.now+ms/5, 1, p.b)
			}
		}
		for _, r := range a.receivers {
			for _, p := range controlOf(r.Receiver, a.now+ms/4) {
				if p.Type == wire.TypeStatus {
					if statuses++; a.losesStatuses {
						continue
					}
				}
				a.s.Handle(a.now+2*ms/5, p.b, nil)
			}
		}
	}
	return statuses
}

const (
	ms = reliable.Instant(time.Millisecond)
	// slowHeartbeat is the longest interval of heartbeats of a publisher whose members lack something.
	slowHeartbeat = 100 * time.Millisecond
)

func newQuerier(t *testing.T, topics ...string) *querier {
	t.Helper()
	a := &querier{bench: newBench(t, nil)}
	for _, name := range topics {
		a.topic(name)
	}
	return a
}

// A subscriber to unrelated patterns, or to more topics than a status lists, does not count; one with a matching
// pattern does, within some round trips, and as long as it has the pattern. docs/protocol §7.10.
func TestQueries(t *testing.T) {
	a := newQuerier(t, "totally.other", "md.x")
	var many []string
	for i := range 3 * wire.MaxStatusTopics {
		many = append(many, fmt.Sprintf("other.%d", i))
	}
	a.receive("md.>")
	a.receive(many...)
	a.run(300 * time.Millisecond)
	const topic = "totally.other"
	for i, x := range []struct {
		more []string
		want int
	}{{nil, 0}, {[]string{"totally.*"}, 1}, {append(many, topic), 2}, {[]string{topic}, 3}, {[]string{"x", "unrelated.>"}, 3}} {
		if x.more != nil {
			a.receive(x.more...)
			a.run(1500 * time.Millisecond) // until it has received a heartbeat
		}
		for range 10 {
			a.m.Ask(a.now, wire.TopicID(topic))
			a.run(20 * time.Millisecond)
		}
		if n := a.m.Receivers(wire.TopicID(topic)); n != x.want {
			t.Errorf("%d: %d receivers count, want %d", i, n, x.want)
		}
		if n, open := a.m.Ask(a.now, wire.TopicID(topic)); n != x.want || open {
			t.Errorf("%d: %d receivers, others possible: %v", i, n, open)
		}
	}
	if n := a.m.Receivers(0); n != len(a.receivers) {
		t.Errorf("%d receivers of any topic, want %d", n, len(a.receivers))
	}
}

// An answered query is not repeated, and receivers report changes unasked. docs/protocol §7.10.
func TestQueriesEnd(t *testing.T) {
	a := newQuerier(t, "a.b", "c.d")
	w := a.receive("a.*", "x.>")
	a.run(300 * time.Millisecond)
	for range 10 {
		a.m.Ask(a.now, wire.TopicID("a.b"))
		a.run(20 * time.Millisecond)
	}
	if statuses := a.run(3 * time.Second); statuses > 4 {
		t.Errorf("%d statuses in 3 s, at a cadence of 1 s", statuses)
	}
	w.patterns = w.patterns[1:]
	w.r.in.TopicsChanged(a.now)
	a.run(20 * time.Millisecond)
	if n := a.m.Receivers(wire.TopicID("a.b")); n != 0 {
		t.Errorf("%d receivers count after the pattern was removed", n)
	}
}

// A member without a status with topics may want any topic, and lists its topics when it is queried again: otherwise
// it would not count for up to a cadence, or while other statuses follow each other closely. docs/protocol §7.10.
func TestQueriesAfterLostTopics(t *testing.T) {
	a := newQuerier(t, "a.b", "c.d")
	a.losesStatuses = true
	a.receive("a.b")
	a.run(300 * time.Millisecond)
	a.losesStatuses = false
	a.status(42, 0, 100, 0)
	for _, x := range []struct {
		topic string
		want  int
	}{{"a.b", 1}, {"c.d", 0}} {
		id := wire.TopicID(x.topic)
		if n, open := a.m.Ask(a.now, id); n != 0 || open != (x.want > 0) {
			t.Errorf("%s: %d receivers, others possible: %v", x.topic, n, open)
		}
		for range 5 {
			a.m.Ask(a.now, id)
			a.run(20 * time.Millisecond)
		}
		if n, open := a.m.Ask(a.now, id); n != x.want || open {
			t.Errorf("%s: %d receivers after 100 ms, others possible: %v", x.topic, n, open)
		}
	}
}

// Many topics are queried in turn, and the number of stored queries is limited. docs/protocol §7.10.
func TestManyQueries(t *testing.T) {
	const topics = 2 * maxQuestions
	var names []string
	for i := range topics {
		names = append(names, fmt.Sprintf("t.%d", i))
	}
	a := newQuerier(t, names...)
	a.receive("t.*")
	a.receive("u.*")
	a.run(300 * time.Millisecond)
	a.s.Await(a.now, 0)
	for i, name := range names {
		for round := 0; ; round++ {
			if n, open := a.m.Ask(a.now, wire.TopicID(name)); !open {
				if n != 1 {
					t.Fatalf("topic %d: %d receivers", i, n)
				}
				break
			}
			if round == 100 {
				t.Fatalf("no answer for topic %d", i)
			}
			a.run(10 * time.Millisecond)
		}
	}
	if n := len(a.m.members.questions.list); n > maxQuestions {
		t.Errorf("%d queries are stored", n)
	}
}

// A receiver whose statuses listed all topics when it was queried lists the queried topic first
// when they no longer do. docs/protocol §7.10.
func TestQueryBeforeManyTopics(t *testing.T) {
	a := newQuerier(t, "a.b")
	var many []string
	for i := range wire.MaxTaggedTopics {
		many = append(many, fmt.Sprintf("other.%d", i))
	}
	w := a.receive(many...)
	a.receive("md.>")
	a.run(300 * time.Millisecond)
	a.m.Ask(a.now, wire.TopicID("a.b"))
	a.run(300 * time.Millisecond)
	for i := range wire.MaxStatusTopics {
		w.r.in.Want(fmt.Sprintf("more.%d", i))
	}
	w.r.in.Want("a.b")
	w.r.in.TopicsChanged(a.now)
	a.run(10 * time.Millisecond)
	if n := a.m.Receivers(wire.TopicID("a.b")); n != 1 {
		t.Errorf("%d receivers count, want 1", n)
	}
}

// Topics that are queried once are answered while nothing is published, and hasten heartbeats only
// until then. docs/protocol §7.10, §5.8.
func TestQueriesOfAnIdlePublisher(t *testing.T) {
	var names []string
	for i := range maxQuestions {
		names = append(names, fmt.Sprintf("t.%d", i))
	}
	a := newQuerier(t, names...)
	a.receive("t.*")
	a.receive("u.*")
	a.run(3 * time.Second)
	for _, name := range names {
		a.m.Ask(a.now, wire.TopicID(name))
	}
	before := a.s.Stats().HeartbeatsSent
	a.run(2 * maxQuestions * leastAskTurn)
	for _, name := range names {
		if n := a.m.Receivers(wire.TopicID(name)); n != 1 {
			t.Errorf("%s: %d receivers count, want 1", name, n)
		}
	}
	if n := a.s.Stats().HeartbeatsSent - before; n > 2*maxQuestions {
		t.Errorf("%d heartbeats for %d topics", n, maxQuestions)
	}
	a.run(3 * time.Second)
	before = a.s.Stats().HeartbeatsSent
	if a.run(5 * time.Second); a.s.Stats().HeartbeatsSent-before > 6 {
		t.Errorf("%d heartbeats in 5 s, after all answers", a.s.Stats().HeartbeatsSent-before)
	}
}

// Topics that are no longer queried make room for others, even without answers. docs/protocol §7.10.
func TestQueriesExpire(t *testing.T) {
	var names []string
	for i := range maxQuestions + 1 {
		names = append(names, fmt.Sprintf("t.%d", i))
	}
	a := newQuerier(t, names...)
	a.receive("t.*")
	a.run(300 * time.Millisecond)
	receivers := a.receivers
	a.receivers = nil // no answers
	for _, name := range names {
		a.m.Ask(a.now, wire.TopicID(name))
	}
	before := a.s.Stats().HeartbeatsSent
	for end := a.now.Add(askFor + time.Second); a.now < end; { // no member is released
		a.run(100 * time.Millisecond)
		a.s.Handle(a.now, a.statusOf(0, wire.Status{Receiver: 42, Limit: 100, Echo: uint64(a.now)}), nil)
	}
	if n, most := a.s.Stats().HeartbeatsSent-before, uint64((askFor+time.Second)/slowHeartbeat+10); n > most {
		t.Errorf("%d heartbeats without answers: want at most %d", n, most)
	}
	a.receivers = receivers
	last := wire.TopicID(names[maxQuestions])
	for range 10 {
		a.m.Ask(a.now, last)
		a.run(20 * time.Millisecond)
	}
	if n, open := a.m.Ask(a.now, last); n != 1 || open {
		t.Errorf("%d receivers, others possible: %v", n, open)
	}
}
