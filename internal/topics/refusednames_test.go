package topics

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// allows are the topics on which publishers may publish.
type allows struct {
	topics     string
	everything bool
}

func (a *allows) May(_ events.ID, topic string) bool {
	return a.everything || strings.Contains(a.topics, topic)
}

// trustAll trusts all publishers on all topics, with proved keys.
func trustAll() TopicTrust { return anyPublisher }

var anyPublisher = &allows{everything: true}

// Names of topics on which their publisher may not publish are not learned: its messages are
// counted, and reported once. Another publisher with permission makes the topic known. docs/protocol §29.8.
func TestRefusedNames(t *testing.T) {
	at := reliable.Instant(time.Hour)
	trust := &allows{topics: "mine"}
	to := new(learned)
	r := newReceived(t, nil)
	r.in.names.now = func() TopicTrust { return trust }
	r.in.LearnNames(at, to)
	expect := func(when, want string) {
		t.Helper()
		if got := strings.Join(to.all, ", "); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
		to.all = nil
	}
	packet := func(publisher, seq uint64, runs ...string) {
		b := wiretest.Named(seq, runs...)
		binary.LittleEndian.PutUint64(b[16:], publisher)
		r.Handle(at, 5, b)
		r.tick(at)
	}
	packet(7, 0, "mine=0", "mine:0", "theirs=0", "theirs:0")
	expect("one of two", "mine whole since 0 at 0, untrusted theirs 1 true")
	packet(7, 1, "theirs:1", "mine:1")
	expect("again", "untrusted theirs 1 false")
	if n := r.in.Stats().NamesRefused; n != 0 || r.in.names.known.Len() != 1 || r.Streams()[0].Next() != 2 {
		t.Errorf("%d names refused, %d known, next packet %d", n, r.in.names.known.Len(), r.Streams()[0].Next())
	}
	trust = &allows{topics: "mine theirs"}
	packet(7, 2, "theirs:2")
	packet(7, 3, "theirs:3")
	expect("trusted", "untrusted theirs 1 false, theirs since 0 at 3")
	if held := r.in.names.held[0]; held != 2 {
		t.Errorf("%d names are counted, want 2", held)
	}
	r.Free()
	if len(r.in.names.held) != 0 || r.in.names.known.Len() != 0 {
		t.Errorf("%v names are counted for a removed stream", r.in.names.held)
	}
}

// Topic runs of topics on which their publisher may not publish are ignored: the publisher does not count as one of
// these topics. When the trusted keys change, the receiver asks for a round. docs/protocol §29.8.
func TestRefusedTopicRuns(t *testing.T) {
	trust := &allows{topics: "mine"}
	r := newReceived(t, nil)
	r.in.names.now = func() TopicTrust { return trust }
	setTopics(r, 0, []string{"theirs"})
	r.tick(0)
	handle(r, 0, topicRuns("mine=0", "mine:0", "theirs=0"))
	if st := r.first(); st.Relevant() || !r.in.PublisherMissing() {
		t.Error("it counts as a publisher of a topic without permission")
	}
	for i, c := range []struct {
		topics string
		want   bool
	}{{"theirs", true}, {"mine", false}, {"mine theirs", true}} {
		trust = &allows{topics: c.topics}
		r.tick(1)
		st, question := r.first(), uint32(i+2) // PublisherMissing has asked as well
		if q, since := asked(t, r); q != question || since != 0 || st.Relevant() || !st.MayConcern() {
			t.Errorf("%q: question %d since %d, relevant %v", c.topics, q, since, st.Relevant())
		}
		handle(r, st.packets.Next(), index(begins, 0, 42, uint64(question)), topicRuns("mine=1", "theirs=0"), index(ends, 2))
		if st.Relevant() != c.want || r.in.PublisherMissing() == c.want || st.MayConcern() != c.want {
			t.Errorf("%q: it counts as a publisher of the topic: %v", c.topics, st.Relevant())
		}
	}
}
