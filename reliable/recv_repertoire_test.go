package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// While a topic has no publisher, all topics are requested from each live publisher once: then it
// is known whether it has the topic. docs/protocol §14.3.
func TestRepertoire(t *testing.T) {
	const step = minStatusEvery
	l := &log{}
	r := newReceiver(t, l, nil)
	at := func(d time.Duration) Instant { return Instant(time.Hour).Add(d) }
	asks := func(now Instant) (n int) {
		for _, p := range replies(r, now) {
			if p.Type == wire.TypeStatus && p.Flags&wire.FlagWantTopics != 0 {
				n++
			}
		}
		return n
	}
	announce := func(now Instant, first, total uint32, names ...string) {
		b := wire.AppendAnnounceHeader(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, 0, first, total)
		for _, n := range names {
			b = wire.AppendTopicState(b, wire.TopicID(n), 0, n)
		}
		wire.FinishAnnounce(b, len(names))
		r.Handle(now, 5, b)
	}
	beatAt := func(now Instant) {
		r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{SentAt: uint64(now), Interval: time.Second}))
	}

	if !r.PublisherMissing(at(0)) {
		t.Error("a topic without publishers is not reported")
	}
	beatAt(at(0))
	if n := asks(at(0)); n != 0 {
		t.Errorf("requested %d times before the answer is needed", n)
	}
	if !r.PublisherMissing(at(1*step)) || asks(at(1*step)) != 1 {
		t.Error("a publisher without announces counts, or its topics are not requested")
	}
	announce(at(2*step), 0, 3, "other", "another")
	if !r.PublisherMissing(at(2 * step)) {
		t.Error("a publisher of other topics counts")
	}
	announce(at(3*step), 2, 3, "the third")
	if !r.PublisherMissing(at(4*step)) || asks(at(4*step)) != 0 {
		t.Error("a publisher that has announced all its topics counts, or they are requested again")
	}
	announce(at(5*step), 3, 4, "a.b")
	if r.PublisherMissing(at(5 * step)) {
		t.Error("a publisher of the topic does not count")
	}
	setTopics(r, at(6*step), []string{"a.b", "c"})
	replies(r, at(6*step))
	if !r.PublisherMissing(at(7*step)) || asks(at(7*step)) != 1 {
		t.Error("another topic is wanted, but not requested from the publisher")
	}
	announce(at(8*step), 0, 5, "other", "another", "the third", "a.b", "c")
	if r.PublisherMissing(at(8 * step)) {
		t.Error("the publisher has both topics, but does not count")
	}
	r.Tick(at(time.Minute))
	if !r.PublisherMissing(at(time.Minute)) {
		t.Error("a lost publisher counts")
	}
}
