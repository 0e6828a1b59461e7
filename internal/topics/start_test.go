package topics

import (
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// docs/protocol §9.8.
func TestReaderBeginsWithANumber(t *testing.T) {
	const id = 5
	for name, c := range map[string]struct {
		start, from uint64
		feed        func(rd *Reader) []string
		want        []string
	}{
		"it is there": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 10, 1, 1))
			out := items(rd)
			rd.Packet(run(nil, id, 12, 1, 1))
			return append(out, items(rd)...)
		}, []string{"x:12", "x:13"}},
		"within a run": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 10, 1, 1, 1, 1))
			return items(rd)
		}, []string{"x:12", "x:13"}},
		"from the beginning": {0, 2, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 0, 1, 1, 1))
			return items(rd)
		}, []string{"x:2"}},
		"it is gone": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 100_000_000, 1))
			return items(rd)
		}, []string{"x:lost 12+99999988", "x:100000000"}},
		"it was lost on the way": {9, 12, func(rd *Reader) []string {
			rd.Skip(3, events.CauseOverrun)
			rd.Packet(run(nil, id, 20, 1))
			return items(rd)
		}, []string{"x:lost 12+8", "x:20"}},
		"a total tells": {9, 12, func(rd *Reader) []string {
			rd.Total(reliable.TopicTotal{ID: id, Next: 20})
			out := items(rd)
			rd.Packet(run(nil, id, 20, 1))
			return append(out, items(rd)...)
		}, []string{"x:lost 12+8", "x:20"}},
		"it is still to come": {9, 12, func(rd *Reader) []string {
			rd.Total(reliable.TopicTotal{ID: id, Next: 12})
			out := items(rd)
			rd.Packet(run(nil, id, 11, 1, 1))
			return append(out, items(rd)...)
		}, []string{"x:12"}},
		"the stream begins within it": {9, 12, func(rd *Reader) []string {
			rd.Packet(fragment(id, 12, 30, 10, 20))
			out := items(rd)
			rd.Packet(run(nil, id, 13, 1))
			return append(out, items(rd)...)
		}, []string{"x:lost 12+1", "x:13"}},
		"the stream begins within it, and a total tells": {9, 10, func(rd *Reader) []string {
			rd.Total(reliable.TopicTotal{ID: id, Next: 12})
			out := items(rd)
			rd.Packet(fragment(id, 12, 30, 10, 20))
			out = append(out, items(rd)...)
			rd.Packet(run(nil, id, 13, 1))
			return append(out, items(rd)...)
		}, []string{"x:lost 10+2", "x:lost 12+1", "x:13"}},
		"the publisher goes before a total tells": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(nil, 77, 10, 1)) // another topic
			out := items(rd)
			rd.Total(reliable.TopicTotal{Lost: events.CausePublisherLost})
			return append(out, items(rd)...)
		}, []string{"?:unknown before 0"}},
		"the stream ends before a total tells": {9, 12, func(rd *Reader) []string {
			rd.End()
			return items(rd)
		}, []string{"?:unknown before 0"}},
		"the publisher goes when all totals are told": {9, 12, func(rd *Reader) []string {
			rd.Total(reliable.TopicTotal{ID: id, Next: 12})
			rd.Total(reliable.TopicTotal{Index: 1, Complete: true})
			out := items(rd)
			rd.Total(reliable.TopicTotal{Lost: events.CausePublisherLost})
			return append(out, items(rd)...)
		}, nil},
		"the publisher goes when the topic has begun": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 12, 1))
			out := items(rd)
			rd.Total(reliable.TopicTotal{Lost: events.CausePublisherLost})
			return append(out, items(rd)...)
		}, []string{"x:12"}},
		"fragments before it": {9, 12, func(rd *Reader) []string {
			rd.Packet(fragment(id, 11, 30, 0, 10))
			rd.Packet(fragment(id, 11, 30, 10, 20))
			out := items(rd)
			rd.Packet(fragment(id, 12, 30, 0, 30))
			return append(out, items(rd)...)
		}, []string{"x:12"}},
	} {
		t.Run(name, func(t *testing.T) {
			rd := NewReader(c.start, 1000)
			rd.OnFault(func(err *events.FaultError) { t.Error(err) })
			rd.Want(id, "x", nil)
			rd.From(id, c.from)
			rd.From(99, c.from) // which nobody wants
			if got := c.feed(rd); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A message under way where a topic is to begin with an earlier one is missing: also where the reader was made before
// it was known where the stream begins, or wants the topic later, and a total does not count the message yet.
// docs/protocol §9.8, §10.2.
func TestReaderBeginsWithinAMessage(t *testing.T) {
	const id = 5
	for name, before := range map[string]func() *Reader{
		"behind the stream's beginning": func() *Reader { return NewReader(15, 1000) },
		"before that is known":          func() *Reader { return NewReader(0, 1000) },
		"under way": func() *Reader {
			rd := NewReader(15, 1000)
			rd.Packet(run(nil, 77, 10, 1)) // another topic
			items(rd)
			rd.Begun()
			return rd
		},
	} {
		t.Run(name, func(t *testing.T) {
			rd := before()
			rd.OnFault(func(err *events.FaultError) { t.Error(err) })
			rd.Want(id, "x", nil)
			rd.From(id, 10)
			rd.Packet(fragment(id, 12, 30, 10, 10))
			got := items(rd)
			rd.Total(reliable.TopicTotal{ID: id, Next: 12})
			got = append(got, items(rd)...)
			rd.Packet(run(fragment(id, 12, 30, 20, 10), id, 13, 1))
			got = append(got, items(rd)...)
			if want := []string{"x:lost 10+2", "x:lost 12+1", "x:13"}; !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}
