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

// openPeers counts retained peers.
type openPeers struct{ retained int }

func (p *openPeers) Retain(from uint64) (uint32, bool) { p.retained++; return uint32(from), true }
func (p *openPeers) Forget(uint32)                     { p.retained-- }
func (p *openPeers) Address(from uint64) string        { return fmt.Sprint("host", from) }

func newTestLister(budget int) (*Lister, *openPeers) {
	p := new(openPeers)
	return NewLister(reliable.ReceiverConfig{ID: 5, GroupTag: 9, MaxStreams: 3}, nil, p, &ListBudget{budget}), p
}

// listing returns the streams and topics of a lister as text.
func listing(l *Lister) string {
	var all []string
	for _, x := range l.Streams() {
		complete := ""
		if x.Complete() {
			complete = " complete"
		}
		var topics []string
		x.Topics(func(t *ListedTopic) { topics = append(topics, fmt.Sprintf("%s %d-%d", t.Name, t.First, t.Next)) })
		slices.Sort(topics)
		all = append(all, fmt.Sprintf("%d%s: %s", x.Publisher, complete, strings.Join(topics, ", ")))
	}
	return strings.Join(all, "; ")
}

// requests returns the number of requests that the lister sends, and checks each.
func requests(t *testing.T, l *Lister) (n int) {
	t.Helper()
	for {
		peer, b, ok := l.Next(nil)
		if !ok {
			return n
		}
		h, err := wire.ParseHeader(b)
		if err != nil || h.Type != wire.TypeStatus || h.Flags != wire.FlagLeaving|wire.FlagWantTopics || len(b) > wire.HeartbeatLen {
			t.Errorf("request %v of %d bytes to peer %d (%v), want a leaving status for topics of at most %d bytes", h, len(b), peer, err, wire.HeartbeatLen)
		}
		n++
	}
}

// A lister reads names and numbers from topic runs and messages. It requests names that it misses, and only in reply to
// heartbeats. docs/protocol §9.10.
func TestLister(t *testing.T) {
	l, peers := newTestLister(events.PatternTopics)
	at := func(d time.Duration) reliable.Instant { return reliable.Instant(time.Hour).Add(d) }
	beat := wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: 40})
	repair := wiretest.Round(44, 0, "x=4", "y=3")
	repair[4] |= byte(wire.FlagRepair)
	for _, s := range []struct {
		what     string
		b        []byte
		at       time.Duration
		want     string
		requests int
	}{
		{"the end of an unknown publisher", wiretest.Heartbeat(7, 3, wire.FlagEnd, wire.Heartbeat{Lead: 40}), 0, "", 0},
		{"a message", wiretest.Named(40, "x:3"), 0, "7:  3-4", 0},
		{"a heartbeat", beat, 0, "7:  3-4", 1},
		{"a heartbeat before the next request is due", beat, listAskFirst / 2, "7:  3-4", 0},
		{"a heartbeat when the next request is due", beat, listAskFirst, "7:  3-4", 1},
		{"a name in the stream", wiretest.Named(42, "y=2", "y:2"), listAskFirst, "7:  3-4, y 2-3", 0},
		{"the end of a round with another topic", wiretest.Data(43, wiretest.Index(wire.IndexEnds, 2)), listAskFirst, "7:  3-4, y 2-3", 0},
		{"a repaired round", repair, listAskFirst, "7:  3-4, y 2-3", 0},
		{"the round's topics", wiretest.Named(44, "x=4", "y=3"), listAskFirst, "7: x 3-4, y 2-3", 0},
		{"the begin of a round", wiretest.Data(45, wiretest.Index(wire.IndexBegins|wire.IndexAll, 0)), listAskFirst, "7: x 3-4, y 2-3", 0},
		{"the end of the round", wiretest.Data(46, wiretest.Index(wire.IndexEnds, 2)), listAskFirst, "7 complete: x 3-4, y 2-3", 0},
		{"a later heartbeat", beat, time.Minute, "7 complete: x 3-4, y 2-3", 0},
		{"messages after a loss", wiretest.Named(90, "x:8"), time.Minute, "7 complete: x 3-9, y 2-3", 0},
		{"a late message", wiretest.Named(89, "x:7"), time.Minute, "7 complete: x 3-9, y 2-3", 0},
		{"a message from before the first packet", wiretest.Named(39, "x:1"), time.Minute, "7 complete: x 3-9, y 2-3", 0},
		{"a topic whose name was lost", wiretest.Named(91, "z:0"), time.Minute, "7:  0-1, x 3-9, y 2-3", 0},
		{"a heartbeat after a lost name", beat, time.Minute, "7:  0-1, x 3-9, y 2-3", 1},
		{"a truncated packet", wiretest.Named(92, "x:9")[:60], time.Minute, "7:  0-1, x 3-9, y 2-3", 0},
		{"the end of a round with the topic", wiretest.Data(93, wiretest.Index(wire.IndexEnds, 3)), time.Minute, "7:  0-1, x 3-9, y 2-3", 0},
		{"a round with the topic", wiretest.Round(94, 0, "x=9", "y=3", "z=1"), time.Minute, "7 complete: x 3-9, y 2-3, z 0-1", 0},
	} {
		l.Handle(at(s.at), 1, s.b)
		if got, n := listing(l), requests(t, l); got != s.want || n != s.requests {
			t.Errorf("%s: listing %q and %d requests, want %q and %d", s.what, got, n, s.want, s.requests)
		}
	}
	if x := l.Streams()[0]; x.Address != "host1" || x.Since != at(0) {
		t.Errorf("stream %+v, want address host1 and time %v", x, at(0))
	}
	if l.Close(); peers.retained != 0 {
		t.Errorf("%d peers retained after Close, want 0", peers.retained)
	}
}

// A lister asks again after 100 ms, and then at twice the distance up to 1 s, until it has all topics or no room for
// more. Each question is a new one, for all topics. docs/protocol §9.10.
func TestListerAsksAgain(t *testing.T) {
	for _, c := range []struct {
		budget int
		packet []byte // comes 2.4 s after the first heartbeat
		want   []int  // when it asks, in ms
	}{
		{9, wiretest.Round(41, 0), []int{0, 100, 300, 700, 1500}},
		{9, wiretest.Data(41, slices.Concat(run(nil, wire.TopicID("x"), 3, 1), wiretest.Index(wire.IndexEnds, 1))), []int{0, 100, 300, 700, 1500}},
		{9, wiretest.Named(41, "x=1", "y=1"), []int{0, 100, 300, 700, 1500, 2500, 3500, 4500}},
		{1, wiretest.Named(41, "x=1", "y=1"), []int{0, 100, 300, 700, 1500}},
	} {
		l, _ := newTestLister(c.budget)
		l.names[wire.TopicID("x")] = "x" // of another publisher
		var asked []int
		for ms := 0; ms < 5000; ms += 50 {
			now := reliable.Instant(time.Hour).Add(time.Duration(ms) * time.Millisecond)
			l.Handle(now, 1, wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: 40}))
			if _, b, ok := l.Next(nil); ok {
				asked = append(asked, ms)
				if st, err := wire.ParseStatus(b); err != nil || st.Question != uint32(len(asked)) || st.Since != 0 {
					t.Errorf("status %+v (%v), want question %d since 0", st, err, len(asked))
				}
			}
			if ms == 2400 {
				l.Handle(now, 1, c.packet)
			}
		}
		if !slices.Equal(asked, c.want) {
			t.Errorf("budget %d, %s: asks at %v ms, want %v", c.budget, listing(l), asked, c.want)
		}
	}
}

// If the newest packets do not come, a heartbeat shows it, and the lister asks since then. docs/protocol §9.10.
func TestListerAsksForTheEnd(t *testing.T) {
	l, _ := newTestLister(events.PatternTopics)
	l.Handle(reliable.Instant(time.Hour), 2, wiretest.Round(40, 0, "x=4"))
	for i, c := range []struct{ lead, since uint64 }{{41, 0}, {43, 41}} {
		l.Handle(reliable.Instant(time.Duration(2+i)*time.Hour), 2, wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: c.lead}))
		_, b, asks := l.Next(nil)
		if asks != (c.since > 0) {
			t.Errorf("lead %d: asks %v", c.lead, asks)
		} else if s, err := wire.ParseStatus(b); asks && (err != nil || s.Since != c.since) {
			t.Errorf("lead %d: status %+v, %v, want since %d", c.lead, s, err, c.since)
		}
	}
	l.Handle(0, 2, wiretest.Round(43, 41, "x=6"))
	if got := listing(l); got != "7 complete: x 4-6" {
		t.Errorf("listing %q", got)
	}
}

// Under hostile packets a lister remembers a bounded number of topics, shows no invalid names, and sends no more bytes
// than it receives. docs/protocol §9.10, §19.2.
func TestListerIsBounded(t *testing.T) {
	const budget = 50
	l, _ := newTestLister(budget)
	now := reliable.Instant(time.Hour)
	receivedBytes, sentBytes := 0, 0
	for i := range uint64(2000) {
		h := wire.Header{GroupTag: 9, Publisher: events.ID(7 + i%10), Epoch: events.ID(i % 3)}
		hb := wire.AppendHeartbeat(nil, h, &wire.Heartbeat{PacketSize: 512, SentAt: i + 1})
		a := make([]byte, wire.DataHeaderLen)
		wire.PutDataHeader(a, h, 512)
		for _, name := range []string{fmt.Sprint("t", i), "a b", "a.*", "\x1b[31m"} {
			a = stated(a, wire.TopicID(name), name, i)
		}
		a = stated(a, 12345, "other", i)
		for _, b := range [][]byte{hb, a} {
			l.Handle(now, 1, b)
			receivedBytes += len(b)
		}
		for {
			_, p, ok := l.Next(nil)
			if !ok {
				break
			}
			sentBytes += len(p)
		}
		now = now.Add(time.Millisecond)
	}
	topics := 0
	for _, x := range l.Streams() {
		x.Topics(func(topic *ListedTopic) {
			if topics++; !strings.HasPrefix(topic.Name, "t") {
				t.Errorf("topic %q, want only names with prefix t", topic.Name)
			}
		})
	}
	st := l.Stats()
	if len(l.Streams()) != 3 || topics > budget || topics+l.budget.Topics != budget || len(l.names) > budget {
		t.Errorf("%d streams, %d topics, %d names, %d topics left; want 3 streams, %d topics in all", len(l.Streams()), topics, len(l.names), l.budget.Topics, budget)
	}
	if st.Topics == 0 || st.NamesRefused == 0 || st.Streams == 0 {
		t.Errorf("counters %+v, want Topics, NamesRefused and Streams above 0", st)
	}
	if sentBytes == 0 || sentBytes > receivedBytes {
		t.Errorf("sent %d bytes, want 1 to %d, the bytes received", sentBytes, receivedBytes)
	}
}

// One stream uses at most half of the budget.
func TestListerLimitsOneStream(t *testing.T) {
	l, _ := newTestLister(events.PatternTopics)
	l.Handle(1, 1, wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{}))
	for i := range events.PatternTopics {
		name := fmt.Sprint("t", i)
		l.learn(l.list[0], wire.TopicID(name), []byte(name), 0)
	}
	if n := l.list[0].Len(); n != events.PatternTopics/2 || l.Stats().Topics == 0 {
		t.Errorf("one stream has %d topics, want %d; counters %+v, want Topics above 0", n, events.PatternTopics/2, l.Stats())
	}
}

// A publisher lists its topics on a lister's request, but does not count the lister as a receiver. docs/protocol
// §9.10.
func TestSenderAnswersListers(t *testing.T) {
	now := reliable.Instant(time.Hour)
	s, m, w := newSender(t, now, nil, nil)
	x, _ := m.Topic("a.b")
	for range 2 {
		w.Append(x, make([]byte, 100))
		m.Assign(now, w, true)
		s.Grant(w.Packets)
	}
	sent(s, now)
	now = now.Add(time.Second)
	sent(s, now)
	l, _ := newTestLister(events.PatternTopics)
	l.Handle(now, 1, wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: 2}))
	_, p, ok := l.Next(nil)
	if !ok {
		t.Fatal("the lister sends no request after a heartbeat, want one")
	}
	s.Handle(now, p, nil)
	for range 5 {
		m.WriteIndex(now, w)
		m.Assign(now, w, true)
		s.Grant(w.Packets)
		for _, p := range sent(s, now) {
			l.Handle(now, 1, p)
		}
		now = now.Add(time.Millisecond)
	}
	if got := listing(l); got != "7 complete: a.b 2-2" {
		t.Errorf("listing %q, want the complete topic a.b 2-2 of publisher 7", got)
	}
	if st := s.Stats(); m.Receivers(0) != 0 || st.ReceiversJoined+st.ReceiversLeft+st.ReceiversBehind != 0 {
		t.Errorf("%d receivers, counters %+v, want no receivers", m.Receivers(0), st)
	}
}

func FuzzLister(f *testing.F) {
	f.Add(wiretest.Named(40, "x:3", "y=4"), wiretest.Round(42, 0, "x=4"), wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: 40}))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		l, peers := newTestLister(10)
		for _, p := range [][]byte{a, b, c, a, c} {
			l.Handle(reliable.Instant(time.Hour), 1, p)
			requests(t, l)
		}
		for _, x := range l.Streams() {
			x.Topics(func(topic *ListedTopic) {
				if topic.First > topic.Next || topic.Name != "" && wire.TopicID(topic.Name) != topic.ID {
					t.Errorf("topic %+v, want First <= Next and a name of its id", topic)
				}
			})
		}
		if l.Close(); peers.retained != 0 {
			t.Errorf("%d peers retained after Close, want 0", peers.retained)
		}
	})
}
