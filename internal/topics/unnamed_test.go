package topics

import (
	"reflect"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Messages that a pattern misses because a topic's name came late are a gap with that cause, even if other packets were
// lost or the reader missed the EventUnnamed.
func TestUnnamedTopicsGapCause(t *testing.T) {
	const id, other = 7, 8
	unnamed := reliable.Event{Kind: reliable.EventUnnamed, Topic: id, Count: 1, Cause: events.CauseUnnamed}
	lost := reliable.Event{Kind: reliable.EventGap, Seq: 2, Count: 1, Cause: events.CauseGone}
	for name, c := range map[string]struct {
		before func(rd *Reader)
		want   []events.Cause // of the gap before the topic's name comes, and of the topic's gap
	}{
		"no topic unnamed":  {func(rd *Reader) {}, []events.Cause{events.CauseGone}},
		"the topic unnamed": {func(rd *Reader) { rd.Take(&unnamed) }, []events.Cause{events.CauseUnnamed, events.CauseUnnamed}},
		"another topic unnamed": {func(rd *Reader) {
			rd.Take(&reliable.Event{Kind: reliable.EventUnnamed, Topic: other, Count: 1, Cause: events.CauseUnnamed})
		}, []events.Cause{events.CauseUnnamed, events.CauseGone}},
		"the topic beyond the limit": {func(rd *Reader) {
			rd.Take(&reliable.Event{Kind: reliable.EventUnnamed, Topic: id, Count: 1, Cause: events.CauseTooManyTopics})
		}, []events.Cause{events.CauseTooManyTopics, events.CauseTooManyTopics}},
		"EventUnnamed missed": {func(rd *Reader) { rd.Overlooked(1) }, []events.Cause{events.CauseUnnamed, events.CauseUnnamed}},
		"EventUnnamed read, no other missed": {func(rd *Reader) {
			rd.Take(&reliable.Event{Kind: reliable.EventUnnamed, Topic: other, Count: 1, Cause: events.CauseUnnamed})
			rd.Overlooked(1)
		}, []events.Cause{events.CauseUnnamed, events.CauseGone}},
		"the topic unnamed twice": {func(rd *Reader) {
			rd.Take(&unnamed)
			rd.Take(&unnamed)
		}, []events.Cause{events.CauseUnnamed, events.CauseUnnamed}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []events.Cause
			rd := NewReader(0, 1000)
			drain := func() {
				for it := (Item{}); nextOf(rd, &it); {
					if it.Gap() {
						got = append(got, it.Cause)
					}
				}
			}
			c.before(rd)
			drain()
			rd.Packet(run(nil, id, 0, 1, 1)) // not wanted yet
			drain()
			rd.Take(&lost)
			drain()
			rd.Want(id, "x", nil)
			rd.Whole(id)
			rd.Packet(run(nil, id, 3, 1))
			drain()
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("causes of gaps %v, want %v", got, c.want)
			}
			got = nil
			rd.Take(&reliable.Event{Kind: reliable.EventGap, Seq: 4, Count: 1, Cause: events.CauseDeadline})
			rd.Packet(run(nil, id, 5, 1))
			if drain(); !reflect.DeepEqual(got, []events.Cause{events.CauseDeadline}) {
				t.Errorf("causes of later gaps %v, want %v", got, events.CauseDeadline)
			}
		})
	}
}

// A message whose first fragment came before the topic's name is missing because of the name, even if packets were lost
// before. The publisher is not at fault.
func TestUnnamedTopicsInFragments(t *testing.T) {
	const id = 7
	for name, before := range map[string]reliable.Event{
		"packets were lost before":  {Kind: reliable.EventGap, Count: 1, Cause: events.CauseGone},
		"no packet was lost before": {Kind: reliable.EventUnnamed, Topic: 9, Count: 1, Cause: events.CauseUnnamed},
	} {
		t.Run(name, func(t *testing.T) {
			rd := NewReader(0, 1000)
			rd.OnFault(func(err *events.FaultError) { t.Errorf("fault %v, want none", err) })
			var gaps []Item
			drain := func() {
				for it := (Item{}); nextOf(rd, &it); {
					if it.Gap() && it.Topic != nil {
						gaps = append(gaps, it)
					}
				}
			}
			rd.Take(&before)
			drain()
			rd.Take(&reliable.Event{Kind: reliable.EventUnnamed, Topic: id, Count: 2, Cause: events.CauseUnnamed})
			drain()
			rd.Packet(fragment(id, 0, 30, 0, 10))
			drain()
			rd.Begun()
			rd.Want(id, "x", nil)
			rd.NamedLate(id)
			rd.Whole(id)
			rd.Packet(fragment(id, 0, 30, 10, 10))
			drain()
			rd.Packet(run(fragment(id, 0, 30, 20, 10), id, 1, 5))
			drain()
			if len(gaps) != 1 || gaps[0].Number != 0 || gaps[0].Lost != 1 || gaps[0].Cause != events.CauseUnnamed {
				t.Errorf("gaps %+v, want message 0 because of %v", gaps, events.CauseUnnamed)
			}
		})
	}
}

// If messages passed before the topic's name came, that is the cause of its gap after From, even if packets were lost.
func TestUnnamedTopicBeginsWithANumber(t *testing.T) {
	const id = 7
	rd := NewReader(0, 1000)
	rd.Take(&reliable.Event{Kind: reliable.EventGap, Count: 1, Cause: events.CauseDeadline})
	rd.Take(&reliable.Event{Kind: reliable.EventUnnamed, Topic: id, Count: 1, Cause: events.CauseUnnamed})
	rd.Packet(run(nil, id, 27, 1, 1))
	items(rd)
	rd.Begun()
	rd.Want(id, "x", nil)
	rd.NamedLate(id)
	rd.From(id, 16)
	rd.Total(reliable.TopicTotal{ID: id, Next: 29})
	if it := (Item{}); !nextOf(rd, &it) || it.Number != 16 || it.Lost != 13 || it.Cause != events.CauseUnnamed {
		t.Errorf("item %+v, want a gap of messages 16 to 28 because of %v", it, events.CauseUnnamed)
	}
}

// A reader remembers a bounded number of unnamed topics, and takes none of them for a topic that was named in time.
func TestUnnamedTopicsAreBounded(t *testing.T) {
	var n unnamedTopics
	for id := range uint64(3 * maxUnnamed) {
		n.add(id, events.CauseTooManyTopics)
	}
	if len(n.ids) > maxUnnamed || n.named(0) != events.CauseUnnamed {
		t.Errorf("%d ids, want at most %d; cause of topic 0 %v, want %v", len(n.ids), maxUnnamed, n.named(0), events.CauseUnnamed)
	}
}
