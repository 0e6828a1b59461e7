package topics

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// openPeers counts references.
type openPeers struct{ out int }

func (p *openPeers) Retain(from uint64) (uint32, bool) { p.out++; return uint32(from), true }
func (p *openPeers) Forget(uint32)                     { p.out-- }
func (p *openPeers) Address(from uint64) string        { return fmt.Sprint("host", from) }

func newTestLister(budget int) (*Lister, *openPeers) {
	p := new(openPeers)
	return NewLister(reliable.ReceiverConfig{ID: 5, GroupTag: 9, MaxStreams: 3}, p, &ListBudget{budget}), p
}

// listing is what a lister knows, as text.
func listing(l *Lister) string {
	var all []string
	for _, x := range l.Streams() {
		told := ""
		if x.Complete() {
			told = " told"
		}
		var topics []string
		x.Topics(func(t *ListedTopic) { topics = append(topics, fmt.Sprintf("%s %d-%d", t.Name, t.First, t.Next)) })
		slices.Sort(topics)
		all = append(all, fmt.Sprintf("%d%s: %s", x.Publisher, told, strings.Join(topics, ", ")))
	}
	return strings.Join(all, "; ")
}

// questions are the questions that the lister has.
func questions(t *testing.T, l *Lister) (n int) {
	t.Helper()
	for {
		peer, b, ok := l.Next(nil)
		if !ok {
			return n
		}
		h, err := wire.ParseHeader(b)
		if err != nil || h.Type != wire.TypeStatus || h.Flags != wire.FlagLeaving|wire.FlagWantTopics || len(b) > wire.HeartbeatLen {
			t.Errorf("question %v of %d bytes to %d: %v", h, len(b), peer, err)
		}
		n++
	}
}

// A lister learns names and numbers from topic runs, announces and messages, whatever is
// lost, and asks for what it lacks, as an answer to heartbeats only. docs/protocol §9.10.
func TestLister(t *testing.T) {
	l, peers := newTestLister(events.PatternTopics)
	at := func(d time.Duration) reliable.Instant { return reliable.Instant(time.Hour).Add(d) }
	beat := wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: 40})
	for _, s := range []struct {
		what  string
		b     []byte
		at    time.Duration
		want  string
		asked int
	}{
		{"an announce of who is not known", wiretest.Announce(40, 0, 2, "x"), 0, "", 0},
		{"the end of who is not known", wiretest.Heartbeat(7, 3, wire.FlagEnd, wire.Heartbeat{Lead: 40}), 0, "", 0},
		{"a message", wiretest.Named(40, "x:3"), 0, "7:  3-4", 0},
		{"a heartbeat", beat, 0, "7:  3-4", 1},
		{"and another", beat, listAskFirst / 2, "7:  3-4", 0},
		{"the time has passed", beat, listAskFirst, "7:  3-4", 1},
		{"a name in the stream", wiretest.Named(42, "y=2", "y:2"), listAskFirst, "7:  3-4, y 2-3", 0},
		{"the second part of a listing", wiretest.Announce(42, 1, 2, "y"), listAskFirst, "7:  3-4, y 2-3", 0},
		{"the first", wiretest.Announce(42, 0, 2, "x"), listAskFirst, "7: x 3-4, y 2-3", 0},
		{"and the second again", wiretest.Announce(42, 1, 2, "y"), listAskFirst, "7 told: x 3-4, y 2-3", 0},
		{"a heartbeat later", beat, time.Minute, "7 told: x 3-4, y 2-3", 0},
		{"messages after a loss", wiretest.Named(90, "x:8"), time.Minute, "7 told: x 3-9, y 2-3", 0},
		{"one that was late", wiretest.Named(89, "x:7"), time.Minute, "7 told: x 3-9, y 2-3", 0},
		{"from before", wiretest.Named(39, "x:1"), time.Minute, "7 told: x 3-9, y 2-3", 0},
		{"a topic of which the name was lost", wiretest.Named(91, "z:0"), time.Minute, "7:  0-1, x 3-9, y 2-3", 0},
		{"asks again", beat, time.Minute, "7:  0-1, x 3-9, y 2-3", 1},
		{"truncated", wiretest.Named(92, "x:9")[:60], time.Minute, "7:  0-1, x 3-9, y 2-3", 0},
	} {
		l.Handle(at(s.at), 1, s.b)
		if got, n := listing(l), questions(t, l); got != s.want || n != s.asked {
			t.Errorf("%s: %q, %d questions; want %q and %d", s.what, got, n, s.want, s.asked)
		}
	}
	if x := l.Streams()[0]; x.Address != "host1" || x.Since != at(0) {
		t.Errorf("%+v", x)
	}
	if l.Close(); peers.out != 0 {
		t.Errorf("%d peers were not given back", peers.out)
	}
}

// What hostile packets make a lister remember is bounded; names that are none are not
// shown; and no question is drawn by less than it has bytes. docs/protocol §9.10, §19.2.
func TestListerIsBounded(t *testing.T) {
	const budget = 50
	l, _ := newTestLister(budget)
	now := reliable.Instant(time.Hour)
	in, out := 0, 0
	for i := range uint64(2000) {
		h := wire.Header{GroupTag: 9, Publisher: events.ID(7 + i%10), Epoch: events.ID(i % 3)}
		hb := wire.AppendHeartbeat(nil, h, &wire.Heartbeat{PacketSize: 512, SentAt: i + 1})
		a := wire.AppendAnnounceHeader(nil, h, 0, 0, uint32(i+2))
		for _, name := range []string{fmt.Sprint("t", i), "a b", "a.*", "\x1b[31m"} {
			a = wire.AppendTopicState(a, wire.TopicID(name), i, name)
		}
		a = wire.AppendTopicState(a, 12345, i, "other")
		wire.FinishAnnounce(a, 5)
		for _, b := range [][]byte{hb, a} {
			l.Handle(now, 1, b)
			in += len(b)
		}
		for {
			_, p, ok := l.Next(nil)
			if !ok {
				break
			}
			out += len(p)
		}
		now = now.Add(time.Millisecond)
	}
	topics := 0
	for _, x := range l.Streams() {
		x.Topics(func(topic *ListedTopic) {
			if topics++; !strings.HasPrefix(topic.Name, "t") {
				t.Errorf("topic %q", topic.Name)
			}
		})
	}
	st := l.Stats()
	if len(l.Streams()) != 3 || topics > budget || topics+l.budget.Topics != budget || len(l.names) > budget {
		t.Errorf("%d streams, %d topics, %d names, room for %d", len(l.Streams()), topics, len(l.names), l.budget.Topics)
	}
	if st.Topics == 0 || st.NamesRefused == 0 || st.Streams == 0 {
		t.Errorf("%+v", st)
	}
	if out == 0 || out > in {
		t.Errorf("%d bytes drew %d", in, out)
	}
}

// One stream does not take all room: the others have half of it.
func TestListerLeavesRoom(t *testing.T) {
	l, _ := newTestLister(events.PatternTopics)
	l.Handle(1, 1, wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{}))
	for i := range events.PatternTopics {
		name := fmt.Sprint("t", i)
		l.learn(l.list[0], wire.TopicID(name), []byte(name), 0)
	}
	if n := l.list[0].Len(); n != events.PatternTopics/2 || l.Stats().Topics == 0 {
		t.Errorf("one stream has %d topics: %+v", n, l.Stats())
	}
}

// A publisher that a lister asks tells its topics, and takes nobody in: neither flow control
// nor its end waits, and nobody counts. docs/protocol §9.10.
func TestSenderAnswersListers(t *testing.T) {
	now := reliable.Instant(time.Hour)
	s, w := newSender(t, now)
	x, _ := s.Topic("a.b")
	for range 2 {
		w.Append(x, make([]byte, 100))
		s.Assign(now, w, true)
		s.Grant(w)
	}
	sent(s, now)
	now = now.Add(time.Second)
	sent(s, now)
	l, _ := newTestLister(events.PatternTopics)
	l.Handle(now, 1, wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: 2}))
	_, p, ok := l.Next(nil)
	if !ok {
		t.Fatal("it does not ask")
	}
	s.Handle(now, p, nil)
	for _, p := range sent(s, now) {
		if wire.Type(p[3]) == wire.TypeAnnounce {
			l.Handle(now, 1, p)
		}
	}
	if got := listing(l); got != "7 told: a.b 2-2" {
		t.Errorf("listed %q", got)
	}
	if st := s.Stats(); s.Receivers(0) != 0 || st.ReceiversJoined+st.ReceiversLeft+st.ReceiversBehind != 0 {
		t.Errorf("%d receivers, %+v", s.Receivers(0), st)
	}
}

func FuzzLister(f *testing.F) {
	f.Add(wiretest.Named(40, "x:3", "y=4"), wiretest.Announce(42, 0, 2, "x"), wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: 40}))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		l, peers := newTestLister(10)
		for _, p := range [][]byte{a, b, c, a, c} {
			l.Handle(reliable.Instant(time.Hour), 1, p)
			questions(t, l)
		}
		for _, x := range l.Streams() {
			x.Topics(func(topic *ListedTopic) {
				if topic.First > topic.Next || topic.Name != "" && wire.TopicID(topic.Name) != topic.ID {
					t.Errorf("%+v", topic)
				}
			})
		}
		if l.Close(); peers.out != 0 {
			t.Errorf("%d peers", peers.out)
		}
	})
}
