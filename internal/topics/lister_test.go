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

// A lister reads names and numbers from topic runs, announces and messages. It requests names that it misses, and only
// in reply to heartbeats. docs/protocol §9.10.
func TestLister(t *testing.T) {
	l, peers := newTestLister(events.PatternTopics)
	at := func(d time.Duration) reliable.Instant { return reliable.Instant(time.Hour).Add(d) }
	beat := wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: 40})
	for _, s := range []struct {
		what     string
		b        []byte
		at       time.Duration
		want     string
		requests int
	}{
		{"an announce of an unknown publisher", wiretest.Announce(40, 0, 2, "x"), 0, "", 0},
		{"the end of an unknown publisher", wiretest.Heartbeat(7, 3, wire.FlagEnd, wire.Heartbeat{Lead: 40}), 0, "", 0},
		{"a message", wiretest.Named(40, "x:3"), 0, "7:  3-4", 0},
		{"a heartbeat", beat, 0, "7:  3-4", 1},
		{"a heartbeat before the next request is due", beat, listAskFirst / 2, "7:  3-4", 0},
		{"a heartbeat when the next request is due", beat, listAskFirst, "7:  3-4", 1},
		{"a name in the stream", wiretest.Named(42, "y=2", "y:2"), listAskFirst, "7:  3-4, y 2-3", 0},
		{"the second part of a listing", wiretest.Announce(42, 1, 2, "y"), listAskFirst, "7:  3-4, y 2-3", 0},
		{"the first part of the listing", wiretest.Announce(42, 0, 2, "x"), listAskFirst, "7: x 3-4, y 2-3", 0},
		{"the second part again", wiretest.Announce(42, 1, 2, "y"), listAskFirst, "7 complete: x 3-4, y 2-3", 0},
		{"a later heartbeat", beat, time.Minute, "7 complete: x 3-4, y 2-3", 0},
		{"messages after a loss", wiretest.Named(90, "x:8"), time.Minute, "7 complete: x 3-9, y 2-3", 0},
		{"a late message", wiretest.Named(89, "x:7"), time.Minute, "7 complete: x 3-9, y 2-3", 0},
		{"a message from before the first packet", wiretest.Named(39, "x:1"), time.Minute, "7 complete: x 3-9, y 2-3", 0},
		{"a topic whose name was lost", wiretest.Named(91, "z:0"), time.Minute, "7:  0-1, x 3-9, y 2-3", 0},
		{"a heartbeat after a lost name", beat, time.Minute, "7:  0-1, x 3-9, y 2-3", 1},
		{"a truncated packet", wiretest.Named(92, "x:9")[:60], time.Minute, "7:  0-1, x 3-9, y 2-3", 0},
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
		a := wire.AppendAnnounceHeader(nil, h, 0, 0, uint32(i+2))
		for _, name := range []string{fmt.Sprint("t", i), "a b", "a.*", "\x1b[31m"} {
			a = wire.AppendTopicState(a, wire.TopicID(name), i, name)
		}
		a = wire.AppendTopicState(a, 12345, i, "other")
		wire.FinishAnnounce(a, 5)
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

// A publisher announces its topics on a lister's request, but does not count the lister as a receiver. docs/protocol
// §9.10.
func TestSenderAnswersListers(t *testing.T) {
	now := reliable.Instant(time.Hour)
	s, w := newSender(t, now, nil)
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
		t.Fatal("the lister sends no request after a heartbeat, want one")
	}
	s.Handle(now, p, nil)
	for _, p := range sent(s, now) {
		if wire.Type(p[3]) == wire.TypeAnnounce {
			l.Handle(now, 1, p)
		}
	}
	if got := listing(l); got != "7 complete: a.b 2-2" {
		t.Errorf("listing %q, want the complete topic a.b 2-2 of publisher 7", got)
	}
	if st := s.Stats(); s.Receivers(0) != 0 || st.ReceiversJoined+st.ReceiversLeft+st.ReceiversBehind != 0 {
		t.Errorf("%d receivers, counters %+v, want no receivers", s.Receivers(0), st)
	}
}

func FuzzLister(f *testing.F) {
	f.Add(wiretest.Named(40, "x:3", "y=4"), wiretest.Announce(42, 0, 2, "x"), wiretest.Heartbeat(7, 3, 0, wire.Heartbeat{Lead: 40}))
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
