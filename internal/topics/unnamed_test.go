package topics

import (
	"reflect"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// What a pattern lacks of a topic because its name did not come in time says so, whatever
// else was lost; also where the reader was overtaken by the word of it.
func TestUnnamedTopicsTopicsSayWhy(t *testing.T) {
	const id, other = 7, 8
	unnamed := reliable.Event{Kind: reliable.EventUnnamed, Topic: id, Count: 1, Cause: events.CauseUnnamed}
	lost := reliable.Event{Kind: reliable.EventGap, Seq: 2, Count: 1, Cause: events.CauseGone}
	for name, c := range map[string]struct {
		before func(rd *Reader)
		want   []events.Cause // of what is told before the topic's name comes, and of its gap
	}{
		"all had their names": {func(rd *Reader) {}, []events.Cause{events.CauseGone}},
		"its messages were":   {func(rd *Reader) { rd.Take(&unnamed) }, []events.Cause{events.CauseUnnamed, events.CauseUnnamed}},
		"another's were": {func(rd *Reader) {
			rd.Take(&reliable.Event{Kind: reliable.EventUnnamed, Topic: other, Count: 1, Cause: events.CauseUnnamed})
		}, []events.Cause{events.CauseUnnamed, events.CauseGone}},
		"it is one too many": {func(rd *Reader) {
			rd.Take(&reliable.Event{Kind: reliable.EventUnnamed, Topic: id, Count: 1, Cause: events.CauseTooManyTopics})
		}, []events.Cause{events.CauseTooManyTopics, events.CauseTooManyTopics}},
		"overtaken by the word of it": {func(rd *Reader) { rd.Overlooked(1) }, []events.Cause{events.CauseUnnamed, events.CauseUnnamed}},
		"overtaken by nothing new": {func(rd *Reader) {
			rd.Take(&reliable.Event{Kind: reliable.EventUnnamed, Topic: other, Count: 1, Cause: events.CauseUnnamed})
			rd.Overlooked(1)
		}, []events.Cause{events.CauseUnnamed, events.CauseGone}},
		"the word of it comes twice": {func(rd *Reader) {
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
				t.Errorf("gaps because of %v, want %v", got, c.want)
			}
			got = nil
			rd.Take(&reliable.Event{Kind: reliable.EventGap, Seq: 4, Count: 1, Cause: events.CauseDeadline})
			rd.Packet(run(nil, id, 5, 1))
			if drain(); !reflect.DeepEqual(got, []events.Cause{events.CauseDeadline}) {
				t.Errorf("later gaps because of %v, want that it came too late", got)
			}
		})
	}
}

// A message whose first fragment came before its topic had a name is missing for that reason, whatever was lost before;
// and the publisher has not misnumbered it.
func TestUnnamedTopicsInFragments(t *testing.T) {
	const id = 7
	for name, before := range map[string]reliable.Event{
		"packets were lost before": {Kind: reliable.EventGap, Count: 1, Cause: events.CauseGone},
		"none was":                 {Kind: reliable.EventUnnamed, Topic: 9, Count: 1, Cause: events.CauseUnnamed},
	} {
		t.Run(name, func(t *testing.T) {
			rd := NewReader(0, 1000)
			rd.OnFault(func(err *events.FaultError) { t.Error(err) })
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
				t.Errorf("gaps %+v, want message 0 because of its topic's name", gaps)
			}
		})
	}
}

// What is missing of a topic that is to begin with a message passed without its name, whatever was lost before.
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
		t.Errorf("%+v, want messages 16 to 28 because of the topic's name", it)
	}
}

// However many topics have no name, what is remembered of them is bounded, and none is
// taken for one that had its name in time.
func TestUnnamedTopicsIsBounded(t *testing.T) {
	var n unnamedTopics
	for id := range uint64(3 * maxUnnamed) {
		n.add(id, events.CauseTooManyTopics)
	}
	if len(n.ids) > maxUnnamed || n.named(0) != events.CauseUnnamed {
		t.Errorf("%d ids are remembered; the first has no name: %v", len(n.ids), n.named(0))
	}
}
