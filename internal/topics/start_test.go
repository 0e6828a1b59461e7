package topics

import (
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// docs/protocol §9.8.
func TestReaderBeginsWithANumber(t *testing.T) {
	const id = 5
	for name, c := range map[string]struct {
		start, from uint64
		feed        func(rd *Reader) []string
		want        []string
	}{
		"the message is present": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 10, 1, 1))
			out := items(rd)
			rd.Packet(run(nil, id, 12, 1, 1))
			return append(out, items(rd)...)
		}, []string{"x:12", "x:13"}},
		"the message is within a run": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 10, 1, 1, 1, 1))
			return items(rd)
		}, []string{"x:12", "x:13"}},
		"the stream begins with message 0": {0, 2, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 0, 1, 1, 1))
			return items(rd)
		}, []string{"x:2"}},
		"the stream begins after the message": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 100_000_000, 1))
			return items(rd)
		}, []string{"x:lost 12+99999988", "x:100000000"}},
		"the message was lost": {9, 12, func(rd *Reader) []string {
			rd.Skip(10, 3, events.CauseOverrun)
			rd.Packet(run(nil, id, 20, 1))
			return items(rd)
		}, []string{"x:lost 12+8", "x:20"}},
		"a topic run shows the gap": {9, 12, func(rd *Reader) []string {
			rd.Packet(stated(nil, id, "x", 20))
			out := items(rd)
			rd.Packet(run(nil, id, 20, 1))
			return append(out, items(rd)...)
		}, []string{"x:lost 12+8", "x:20"}},
		"the message is not published yet": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(stated(nil, id, "x", 11), id, 11, 1))
			out := items(rd)
			rd.Packet(run(stated(nil, id, "x", 12), id, 12, 1))
			return append(out, items(rd)...)
		}, []string{"x:12"}},
		"the publisher is lost when the message is next": {9, 12, func(rd *Reader) []string {
			rd.Packet(stated(nil, id, "x", 12))
			out := items(rd)
			rd.End()
			return append(out, items(rd)...)
		}, nil},
		"the stream begins within the message": {9, 12, func(rd *Reader) []string {
			rd.Packet(fragment(id, 12, 30, 10, 20))
			out := items(rd)
			rd.Packet(run(nil, id, 13, 1))
			return append(out, items(rd)...)
		}, []string{"x:lost 12+1", "x:13"}},
		"the stream ends before a listing": {9, 12, func(rd *Reader) []string {
			rd.End()
			return items(rd)
		}, []string{"?:unknown before 0"}},
		"the publisher is lost after the message": {9, 12, func(rd *Reader) []string {
			rd.Packet(run(nil, id, 12, 1))
			out := items(rd)
			rd.End()
			return append(out, items(rd)...)
		}, []string{"x:12"}},
		"a loss within a later message": {9, 12, func(rd *Reader) []string {
			rd.Skip(10, 3, events.CauseOverrun)
			rd.Packet(fragment(id, 14, 30, 10, 20))
			return items(rd)
		}, []string{"x:lost 12+3"}},
		"fragments of an earlier message": {9, 12, func(rd *Reader) []string {
			rd.Packet(fragment(id, 11, 30, 0, 10))
			rd.Packet(fragment(id, 11, 30, 10, 20))
			out := items(rd)
			rd.Packet(fragment(id, 12, 30, 0, 30))
			return append(out, items(rd)...)
		}, []string{"x:12"}},
	} {
		t.Run(name, func(t *testing.T) {
			rd := NewReader(c.start, 1000)
			rd.OnFault(func(err *events.FaultError) { t.Errorf("fault %v, want none", err) })
			rd.Want(id, "x", nil)
			rd.From(id, c.from)
			rd.From(99, c.from) // an unwanted topic
			if got := c.feed(rd); !slices.Equal(got, c.want) {
				t.Errorf("items %v, want %v", got, c.want)
			}
		})
	}
}

// If a topic is to begin with an earlier message, a message in progress at the stream's start is missing. When the
// reader learns the start or the topic makes no difference.
// docs/protocol §9.8, §10.2.
func TestReaderBeginsWithinAMessage(t *testing.T) {
	const id = 5
	for name, before := range map[string]func() *Reader{
		"start known":   func() *Reader { return NewReader(15, 1000) },
		"start unknown": func() *Reader { return NewReader(0, 1000) },
		"topic wanted later": func() *Reader {
			rd := NewReader(15, 1000)
			rd.Packet(run(nil, 77, 10, 1)) // another topic
			items(rd)
			rd.Begun()
			return rd
		},
	} {
		t.Run(name, func(t *testing.T) {
			rd := before()
			rd.OnFault(func(err *events.FaultError) { t.Errorf("fault %v, want none", err) })
			rd.Want(id, "x", nil)
			rd.From(id, 10)
			rd.Packet(fragment(id, 12, 30, 10, 10))
			got := items(rd)
			rd.Packet(run(fragment(id, 12, 30, 20, 10), id, 13, 1))
			got = append(got, items(rd)...)
			if want := []string{"x:lost 10+3", "x:13"}; !slices.Equal(got, want) {
				t.Errorf("items %v, want %v", got, want)
			}
		})
	}
}

// A topic that begins with a given message begins there, also if its name comes later because of a pattern.
func TestFromAndWhole(t *testing.T) {
	id := wire.TopicID("x")
	r := NewReader(0, wire.MaxMessage)
	r.Want(id, "x", nil)
	r.From(id, 2)
	r.Whole(id)
	r.Packet(run(nil, id, 0, 4, 4, 4))
	if got, number, _ := r.One(); got != nil {
		t.Errorf("got message %d, want none before Next", number)
	}
	if r.Open() {
		t.Error("Open returns true, want false before Next")
	}
	var it Item
	if !r.Next(&it) || it.Gap() || it.Number != 2 {
		t.Errorf("got %+v, want message 2", it)
	}
}
