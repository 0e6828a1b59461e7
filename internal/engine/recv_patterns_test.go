package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A pattern may match as many topics as a receiver keeps names of, and any host can name that many. Subscribing and
// unsubscribing blocks the loop for a time proportional to their number. Quadratic work shows in the time of this test.
// docs/protocol §12.5.
func TestPatternOfManyTopics(t *testing.T) {
	testenv.Slow(t)
	const topics, each = 40_000, 1000
	_, there := newLoop(t, Config{})
	p, topic := publication(t, there, "x")
	all, err := pattern.Parse(">")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, end := range []struct {
		name string
		do   func(*Subscription) error
	}{
		{"remove", func(s *Subscription) error {
			_, err := s.Remove([]TopicName{{Name: ">", Pattern: all}})
			return err
		}},
		{"close", (*Subscription).Close},
	} {
		_, l := newLoop(t, Config{})
		s := subscribeTo(t, l, TopicName{Name: ">", Pattern: all}, policyBlock, nil)
		if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
			t.Fatal(err)
		}
		known := func() (n int) {
			l.do(func() { n = len(l.find(0, nil).topics) })
			return n
		}
		l.do(func() { name(l, topics, each) })
		if n := known(); n < topics {
			t.Fatalf("%d topics are wanted, want at least %d", n, topics)
		}
		if err := end.do(s); err != nil {
			t.Fatal(err)
		}
		if n := known(); n != 0 {
			t.Errorf("after %s: %d topics are wanted, want 0", end.name, n)
		}
		for _, f := range *s.feeds.Load() {
			if len(f.topics) > 0 || len(f.later) > 0 {
				t.Errorf("after %s: a feed has %d topics, and %d later, want 0", end.name, len(f.topics), len(f.later))
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// name passes a new stream of group 0, with packets of as many topic runs as each.
func name(l *Loop, topics, each int) {
	g := l.find(0, nil)
	h := wire.Header{GroupTag: wire.GroupTag(g.address), Publisher: 7, Epoch: 3}
	for i := 0; i < topics; i += each {
		b := make([]byte, wire.DataHeaderLen)
		wire.PutDataHeader(b, h, 32<<10) // the window has room for all packets
		wire.SetSeq(b, uint64(i/each))
		for j := i; j < min(i+each, topics); j++ {
			b = appendTopic(b, fmt.Sprint("t.", j))
		}
		g.r.Handle(l.now(), 0, b)
	}
}

// appendTopic appends a topic run.
func appendTopic(b []byte, name string) []byte {
	run := make([]byte, wire.RunHeaderLen+len(name))
	wire.PutTopicRun(run, wire.TopicID(name), name)
	return append(b, run...)
}

// Messages on topics beyond the limit of patterns are a gap with that cause for handlers and readers, and are logged
// once.
func TestTooManyTopicsForPatterns(t *testing.T) {
	testenv.Slow(t)
	_, there := newLoop(t, Config{})
	p, topic := publication(t, there, "x")
	var log strings.Builder
	_, l := newLoop(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	all, err := pattern.Parse(">")
	if err != nil {
		t.Fatal(err)
	}
	reported := make(chan events.Cause, 2)
	names := []TopicName{{Name: ">", Pattern: all}}
	handler := handlerFuncs{
		message: func(*reliable.Origin, *topics.Track, uint64, []byte) {},
		other:   func(d *Delivery) { reported <- d.Cause },
	}
	if _, err := l.Subscribe(names, policyBlock, From{}, false, handler); err != nil {
		t.Fatal(err)
	}
	read, err := l.Subscribe(names, policyBlock, From{}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	var d Delivery
	if err := p.Publish(ctx, topic, nil, true); err != nil {
		t.Fatal(err)
	}
	if err := read.Next(ctx, &d); err != nil {
		t.Fatal(err)
	}
	const limit = 131072 // docs/protocol §12.5
	known := 1           // x
	for l.do(func() { name(l, limit-known, limit/128) }); known < limit && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		l.do(func() { known = l.find(0, nil).in.NamesKnown() }) // handlers run for a bounded time in each turn
	}
	for _, name := range []string{"late", "later"} {
		_, beyond := publication(t, there, name)
		if err := p.Publish(ctx, beyond, nil, true); err != nil {
			t.Fatal(err)
		}
		if err := read.Next(ctx, &d); err != nil || !d.Gap() || d.Cause != events.CauseTooManyTopics {
			t.Errorf("Next returned %+v and %v, want a gap because of %v", d.Item, err, events.CauseTooManyTopics)
		}
		if cause := <-reported; cause != events.CauseTooManyTopics {
			t.Errorf("the handler was called with cause %q, want %q", cause, events.CauseTooManyTopics)
		}
	}
	l.do(func() {
		if n := strings.Count(log.String(), "more topics than patterns can know"); n != 1 || !strings.Contains(log.String(), "known=131072") {
			t.Errorf("%d lines about too many topics, want one with known=131072:\n%s", n, log.String())
		}
	})
}
